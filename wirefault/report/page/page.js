'use strict';
(() => {
  const PAGE = 200;
  const byId = (id) => document.getElementById(id);
  const list = byId('list');
  const filters = byId('filters');
  const chunks = [...document.querySelectorAll('script.chunk')];
  const inflated = new Map();
  let rows = [], shown = [], limit = PAGE, visited = null;

  async function inflate(text) {
    const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return JSON.parse(await new Response(stream).text());
  }

  // the template that wrote the page wrote these elements, too, and escaped all texts
  async function fill(details, row) {
    if (!row || row.chunk < 0 || details.dataset.filled) return;
    details.dataset.filled = 'yes';
    if (!inflated.has(row.chunk)) inflated.set(row.chunk, inflate(chunks[row.chunk].textContent));
    const html = (await inflated.get(row.chunk))[row.place];
    const parsed = new DOMParser().parseFromString(html, 'text/html');
    const body = parsed.querySelector('details.ep > .body');
    if (body) details.append(document.importNode(body, true));
  }

  function item(row) {
    if (!row.item) {
      const details = document.createElement('details');
      details.className = 'ep';
      details.id = 'ep/' + row.n;
      details.dataset.n = row.n;
      const summary = details.appendChild(document.createElement('summary'));
      const part = (name, text) => {
        const span = summary.appendChild(document.createElement('span'));
        span.className = name;
        span.textContent = text;
        return span;
      };
      part('n', row.n);
      const chip = part('chip outcome', row.word);
      const swatch = document.createElement('i');
      swatch.className = 'swatch ' + row.tone;
      chip.prepend(swatch);
      if (row.worst) part('chip ' + row.worst[0], row.worst[1]);
      part('title', row.title);
      if (row.arm) part('arm', row.arm);
      part('secs', row.secs.toFixed(2) + ' s');
      row.item = document.createElement('li');
      row.item.append(details);
    }
    return row.item;
  }

  function matches(row, want) {
    return (!want.word || row.word === want.word) && (!want.arm || row.arm === want.arm)
      && (!want.fault || row.faults.includes(want.fault)) && (!want.link || row.links.includes(want.link))
      && (!want.finding || row.rules.includes(want.finding))
      && (!want.text || row.title.toLowerCase().includes(want.text));
  }

  function apply() {
    const want = Object.fromEntries(new FormData(filters));
    want.text = want.text.toLowerCase();
    shown = rows.filter((row) => matches(row, want));
    const visible = shown.slice(0, limit);
    if (visited && shown.includes(visited) && !visible.includes(visited)) visible.push(visited);
    list.replaceChildren(...visible.map(item));
    byId('more').hidden = shown.length <= limit;
    byId('count').textContent = shown.length === rows.length
      ? rows.length + (rows.length === 1 ? ' episode' : ' episodes') : shown.length + ' of ' + rows.length + ' episodes';
  }

  function choices(name, values) {
    const select = filters.elements[name];
    select.replaceChildren(new Option('all', ''), ...[...new Set(values)].sort().map((v) => new Option(v, v)));
    select.closest('label').hidden = select.options.length < 3;
  }

  function fillChoices() {
    choices('word', rows.map((row) => row.word));
    choices('fault', rows.flatMap((row) => row.faults));
    choices('link', rows.flatMap((row) => row.links));
    choices('finding', rows.flatMap((row) => row.rules));
    choices('arm', rows.map((row) => row.arm).filter(Boolean));
  }

  async function goTo(hash) {
    let id;
    try { id = decodeURIComponent(hash.slice(1)); } catch { return; }
    const [, number] = /^ep\/(\d+)/.exec(id) || [];
    const row = rows[number - 1];
    if (!row) return;
    visited = row;
    if (!shown.includes(row)) filters.reset();
    apply();
    const details = item(row).firstElementChild;
    details.open = true;
    await fill(details, row);
    const target = byId(id) || details;
    for (let at = target; at && at !== list; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
    document.querySelectorAll('.target').forEach((each) => each.classList.remove('target'));
    target.classList.add('target');
    target.scrollIntoView({ block: 'center' });
    const focusable = target.tagName === 'DETAILS' ? target.firstElementChild : target;
    if (focusable !== target.firstElementChild) focusable.tabIndex = -1;
    focusable.focus({ preventScroll: true });
  }

  // an episode that ended, or changed, while the page is open
  function put({ row, html }) {
    const before = rows[row.n - 1];
    const parsed = new DOMParser().parseFromString(html, 'text/html').querySelector('details.ep');
    const details = document.importNode(parsed, true);
    if (before && before.item) details.open = before.item.firstElementChild.open;
    row.item = document.createElement('li');
    row.item.append(details);
    rows[row.n - 1] = row;
    if (visited === before) visited = row;
    const chosen = new FormData(filters);
    fillChoices();
    for (const [name, value] of chosen) filters.elements[name].value = value;
    const focused = document.activeElement;
    apply();
    if (list.contains(focused)) focused.focus({ preventScroll: true });
  }

  const zooms = ['', 'x2', 'x4', 'x8'];
  // share: which part of the width stays in its place
  function zoom(step, inside = document.activeElement.closest('.ep') || list.querySelector('.ep[open]'), share = 0.5) {
    const chart = inside && inside.querySelector('.zoomable > svg');
    if (!chart) return;
    const now = zooms.findIndex((name) => name && chart.classList.contains(name));
    const next = Math.min(Math.max(Math.max(now, 0) + step, 0), zooms.length - 1);
    const frame = chart.parentElement;
    const point = (frame.scrollLeft + share * frame.clientWidth) / frame.scrollWidth;
    zooms.forEach((name) => name && chart.classList.remove(name));
    if (zooms[next]) chart.classList.add(zooms[next]);
    frame.scrollLeft = point * frame.scrollWidth - share * frame.clientWidth;
  }

  list.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-zoom]');
    if (button) zoom(Number(button.dataset.zoom), button.closest('.ep'));
  });
  list.addEventListener('wheel', (event) => {
    const frame = event.target.closest('.zoomable');
    if (!frame || !event.ctrlKey) return;
    event.preventDefault();
    const box = frame.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1 : -1, frame.closest('.ep'), (event.clientX - box.left) / box.width);
  }, { passive: false });

  function move(step, within) {
    const places = [...document.querySelectorAll(within)];
    const now = places.findIndex((each) => each.contains(document.activeElement));
    const next = places[now < 0 ? 0 : Math.min(Math.max(now + step, 0), places.length - 1)];
    if (!next) return;
    const focus = next.querySelector('summary, a');
    if (focus) { focus.focus(); focus.scrollIntoView({ block: 'nearest' }); }
  }

  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    const act = {
      j: () => move(1, '#list > li'), k: () => move(-1, '#list > li'), f: () => move(1, '.finding'),
      '+': () => zoom(1), '-': () => zoom(-1), '/': () => filters.elements.text.focus(),
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  list.addEventListener('toggle', (event) => {
    const details = event.target;
    if (details.classList.contains('ep') && details.open) fill(details, rows[details.dataset.n - 1]);
  }, true);
  window.addEventListener('hashchange', () => goTo(location.hash));
  window.addEventListener('beforeprint', () => {
    document.querySelectorAll('details.ep').forEach((each) => { if (each.querySelector('.finding-line')) each.open = true; });
  });

  // only what scrolls is a stop of the Tab key
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight) target.tabIndex = 0;
      else target.removeAttribute('tabindex');
    }
  });
  document.querySelectorAll('.scroll, .sides pre').forEach((each) => sized.observe(each));

  (async () => {
    rows = await inflate(byId('index').textContent);
    for (const details of list.querySelectorAll('details.ep')) rows[details.dataset.n - 1].item = details.parentElement;
    fillChoices();
    filters.hidden = false;
    filters.addEventListener('input', () => { limit = PAGE; apply(); });
    filters.addEventListener('submit', (event) => event.preventDefault());
    byId('more').addEventListener('click', () => { limit += PAGE; apply(); });
    apply();
    document.documentElement.dataset.ready = 'yes';
    document.addEventListener('wirefault:episode', (event) => put(event.detail));
    goTo(location.hash);
  })();
})();
