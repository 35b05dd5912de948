'use strict';
// on the server alone: load the page again when what it shows has changed
(() => {
  const run = location.pathname.startsWith('/runs/') ? '?run=' + location.pathname.slice(6) : '';
  new EventSource('/changes' + run).onmessage = () => location.reload();
})();
