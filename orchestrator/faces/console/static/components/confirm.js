/** A question before something that cannot be undone, or that has effects. */
import {html, useEffect, useRef} from '../lib/dom.js';

/**
 * A window above the page, which the Escape key closes unless it is busy.
 * @param {{title: string, busy?: boolean, onClose: () => void, children: any, element?: {current: any}}} props
 */
export function Dialog({title, busy = false, onClose, children, element}) {
  const own = useRef(null);
  const dialog = element ?? own;
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} class="confirm" aria-labelledby="confirm-title" onCancel=${(event) => busy && event.preventDefault()} onClose=${onClose}>
    <h2 id="confirm-title">${title}</h2>
    ${children}
  </dialog>`;
}

/** @param {{title: string, yes: string, no?: string, tone?: 'danger' | 'primary', onYes: () => void, onClose: () => void, children: any}} props */
export function Confirm({title, yes, no = 'Go back', tone = 'danger', onYes, onClose, children}) {
  const dialog = useRef(null);
  return html`<${Dialog} title=${title} onClose=${onClose} element=${dialog}>
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
  <//>`;
}
