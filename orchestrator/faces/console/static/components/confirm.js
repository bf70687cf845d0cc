/** A question before something that cannot be undone, or that has effects. */
import {html, useEffect, useRef} from '../lib/dom.js';

/** @param {{title: string, yes: string, no?: string, tone?: 'danger' | 'primary', onYes: () => void, onClose: () => void, children: any}} props */
export function Confirm({title, yes, no = 'Go back', tone = 'danger', onYes, onClose, children}) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} class="confirm" aria-labelledby="confirm-title" onClose=${onClose}>
    <h2 id="confirm-title">${title}</h2>
    ${children}
    <div class="actions">
      <button type="button" onClick=${() => dialog.current.close()}>${no}</button>
      <button
        type="button"
        class=${tone}
        onClick=${() => {
          onYes();
          dialog.current.close();
        }}
      >${yes}</button>
    </div>
  </dialog>`;
}
