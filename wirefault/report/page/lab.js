'use strict';
// the lab's live state: the server sends it, escaped, whenever it has changed
(() => {
  const lab = document.getElementById('lab');
  const changes = new EventSource('/lab/changes');
  changes.onmessage = message => { lab.innerHTML = JSON.parse(message.data); };
  changes.onerror = () => { lab.querySelector('[role=status]').textContent = 'The server does not answer; trying again.'; };
})();
