'use strict';
// on the server alone: load the page again when its runs have changed, unless a form is in use
(() => {
  const run = location.pathname.startsWith('/runs/') ? '?run=' + location.pathname.slice(6) : '';
  const busy = () => /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
  new EventSource('/changes' + run).onmessage = () => { if (!busy()) location.reload(); };
})();
