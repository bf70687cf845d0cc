/** Bars beside figures, which say the same in numbers. */
import {html} from '../lib/dom.js';
import {share} from './figures_of.js';

/** @param {{part: number, whole: number, inner?: number, tone?: string}} props `inner` is a smaller one within it */
export function Bar({part, whole, inner = 0, tone = 'full'}) {
  return html`<span class="bar" aria-hidden="true">
    <span class=${`bar-fill is-${tone}`} style=${{width: share(part, whole)}}></span>
    ${inner > 0 && html`<span class="bar-fill is-inner" style=${{width: share(inner, whole)}}></span>`}
  </span>`;
}

/** One of several amounts below each other; belongs into <dl class="compared">. */
export function Compared({name, part, whole, figure, tone}) {
  return html`<div>
    <dt>${name}</dt>
    <dd><${Bar} part=${part} whole=${whole} tone=${tone} /><span class="amount">${figure}</span></dd>
  </div>`;
}
