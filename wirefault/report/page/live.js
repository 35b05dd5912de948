'use strict';
// on the server alone: take in episodes as they end, and the other sections; the reader's place stays
(() => {
  const state = document.documentElement.dataset.live;
  const isList = location.pathname === '/';
  const waits = document.documentElement.dataset.waiting;
  if (!isList && (!location.pathname.startsWith('/runs/') || !(state || waits))) return;
  const query = isList ? '' : '?run=' + location.pathname.slice(6) + (state ? '&state=' + state : '');
  const source = new EventSource('/changes' + query);
  const parsed = async () => {
    const reply = await fetch(location.pathname + location.search);
    return reply.ok ? new DOMParser().parseFromString(await reply.text(), 'text/html') : null;
  };
  async function swap(selectors) {
    const page = await parsed();
    for (const selector of page ? selectors : []) {
      const now = document.querySelector(selector), next = page.querySelector(selector);
      if (now && next && !now.contains(document.activeElement)) now.replaceChildren(...next.childNodes);
    }
  }
  source.addEventListener('episode', (event) => {
    document.dispatchEvent(new CustomEvent('wirefault:episode', { detail: JSON.parse(event.data) }));
  });
  source.addEventListener('stale', () => location.reload());
  source.addEventListener('sections', () => waits
    ? location.reload() : swap(['header', '#findings', '#matrix', '#figures', '#provenance']));
  source.addEventListener('list', () => swap(['tbody', '[role=status]']));
})();
