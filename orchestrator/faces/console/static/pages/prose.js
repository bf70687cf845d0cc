/** Sentences with `code` in them, of ours or of others: as text nodes only. */
import {html} from '../lib/dom.js';
import {visible} from '../lib/format.js';
import {paragraphs, pieces} from './texts.js';

export function Prose({text}) {
  return html`<bdi>${pieces(text).map((part) => (part.code ? html`<code>${visible(part.text)}</code>` : visible(part.text)))}</bdi>`;
}

/** A longer text in its paragraphs. */
export function Paragraphs({text}) {
  return html`<div class="paragraphs">${paragraphs(text).map((part, index) => html`<p key=${index}><${Prose} text=${part} /></p>`)}</div>`;
}
