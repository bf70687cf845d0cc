/** The parts that every page is made of. */
import {h, html, useEffect, useRef, useState} from '../lib/dom.js';
import {visible, words} from '../lib/format.js';
import {wantsFocus} from '../lib/router.js';

/** A page with its one heading, which takes the focus after a navigation. */
export function Page({title, heading, lead, actions, children}) {
  const head = useRef(null);
  useEffect(() => {
    document.title = `${title} · Code Executor`;
  }, [title]);
  useEffect(() => {
    if (wantsFocus()) head.current.focus({preventScroll: true});
  }, []);
  return html`
    <div class="page">
      <div class="page-head">
        <div class="page-title">
          <h1 ref=${head} tabindex="-1">${heading ?? title}</h1>
          ${lead && html`<p class="lead">${lead}</p>`}
        </div>
        ${actions && html`<div class="actions">${actions}</div>`}
      </div>
      ${children}
    </div>
  `;
}

/** A surface with a heading. `label` names it for those who do not see it, when it has no title. */
export function Panel({title, label, actions, children, class: extra = ''}) {
  return html`
    <section class=${`panel ${extra}`} aria-label=${title ? undefined : label}>
      ${(title || actions) &&
      html`<div class="panel-head">
        ${title && html`<h2>${title}</h2>`}
        ${actions && html`<div class="actions">${actions}</div>`}
      </div>`}
      <div class="panel-body">${children}</div>
    </section>
  `;
}

const OUTCOMES = {
  completed: {tone: 'ok', mark: '✓'},
  failed: {tone: 'bad', mark: '✕'},
  timed_out: {tone: 'warn', mark: '◷'},
  out_of_memory: {tone: 'warn', mark: '▲'},
  output_limit: {tone: 'warn', mark: '▲'},
  rejected: {tone: 'warn', mark: '⊘'},
  cancelled: {tone: 'muted', mark: '–'},
  sandbox_error: {tone: 'bad', mark: '!'},
  running: {tone: 'info', mark: '●'},
  queued: {tone: 'muted', mark: '○'},
  refused: {tone: 'bad', mark: '⊘'},
  interrupted: {tone: 'bad', mark: '!'},
};

/** How an execution stands, in one word: its outcome, or its state while it has none. */
export const standing = (execution) => execution.outcome ?? execution.state;

/** The standing as a badge, by colour, mark and word. */
export function Outcome({execution}) {
  const name = standing(execution);
  const {tone, mark} = OUTCOMES[name] ?? {tone: 'muted', mark: '·'};
  const live = name === 'running' ? 'is-live' : '';
  return html`<${Badge} tone=${tone} mark=${mark} class=${live}>${words(name)}<//>`;
}

/** A word with a colour and a mark, so that the colour does not stand alone. */
export function Badge({tone = 'muted', mark, title, class: extra = '', children}) {
  return html`<span class=${`badge tone-${tone} ${extra}`} title=${title}>
    ${mark && html`<span class="mark" aria-hidden="true">${mark}</span>`}${children}
  </span>`;
}

/** Text of programs, tools and servers: isolated, with its invisible characters shown. */
export function Said({children, mono}) {
  return html`<bdi class=${mono ? 'mono' : ''}>${visible(String(children ?? ''))}</bdi>`;
}

/** Nothing is here, and what to do next. */
export function Empty({title, children}) {
  return html`<div class="empty">
    <p class="empty-title">${title}</p>
    ${children}
  </div>`;
}

/** What went wrong, and what to do about it. */
export function Problem({error, retry}) {
  return html`<div class="problem" role="alert">
    <p><strong><${Said}>${error.detail ?? error.message}<//></strong></p>
    ${error.hint && html`<p><${Said}>${error.hint}<//></p>`}
    ${retry && html`<button type="button" onClick=${() => retry()}>Try again</button>`}
  </div>`;
}

/** Shown only when it takes a moment, so that quick pages do not flicker. */
export function Loading({label = 'Loading'}) {
  return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>${label}…</p>`;
}

const NOT_COPIED = 'Not copied';

/** A button that copies a text and says so. @param {{text: string | (() => string | Promise<string>), label?: string, class?: string}} props */
export function Copy({text, label = 'Copy', class: extra = ''}) {
  const [said, setSaid] = useState('');
  const copy = async () => {
    const copied = await toClipboard(typeof text === 'function' ? await text() : text);
    setSaid(copied ? 'Copied' : NOT_COPIED);
    setTimeout(() => setSaid(''), 1500);
  };
  // What is read out is not in the button, where it would become its name.
  return html`
    <button type="button" class=${`copy ${extra}`} aria-label=${said ? label : undefined} onClick=${copy}>
      <span class=${said ? 'is-away' : ''}>${label}</span>
      <span class=${`copy-said ${said === NOT_COPIED ? 'tone-bad' : ''}`} aria-hidden="true">${said}</span>
    </button>
    <span class="hidden-text" role="status">${said}</span>
  `;
}

/** A command of ours to copy, as it works in the directory of the installation. @param {{text: string}} props */
export function Command({text}) {
  return html`<div class="command"><code>${text}</code><${Copy} text=${text} /></div>`;
}

/** @param {{command: string}} props */
export const OnPath = ({command}) => html`<p class="muted">or <code>${command}</code>, if it is on your PATH</p>`;

/** A page without https, on another host, has no clipboard API. @param {string} text */
async function toClipboard(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const area = document.body.appendChild(document.createElement('textarea'));
  area.value = text;
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  focused?.focus();
  return copied;
}

/**
 * Tabs by the WAI-ARIA pattern: arrow keys move between them.
 * @param {{title?: string, label: string, tabs: {id: string, label: any}[], selected: string, onSelect: (id: string) => void,
 *   actions?: any, children: any}} props
 */
export function Tabs({title, label, tabs, selected, onSelect, actions, children}) {
  const [base] = useState(newId);
  const keys = (event) => {
    const at = tabs.findIndex((tab) => tab.id === selected);
    const next = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const {id} = tabs[(next + tabs.length) % tabs.length];
    onSelect(id);
    document.getElementById(`${base}-${id}`)?.focus();
  };
  return html`
    <div class="tabs">
      <div class="tabs-head">
        ${title && html`<h2>${title}</h2>`}
        <div role="tablist" aria-label=${label} onKeyDown=${keys}>
          ${tabs.map(
            (tab) => html`<button
              key=${tab.id}
              type="button"
              role="tab"
              id=${`${base}-${tab.id}`}
              aria-selected=${String(tab.id === selected)}
              aria-controls=${`${base}-panel`}
              tabindex=${tab.id === selected ? 0 : -1}
              onClick=${() => onSelect(tab.id)}
            >${tab.label}</button>`,
          )}
        </div>
        ${actions && html`<div class="actions">${actions}</div>`}
      </div>
      <div role="tabpanel" id=${`${base}-panel`} aria-labelledby=${`${base}-${selected}`}>${children}</div>
    </div>
  `;
}

/**
 * A line of values over time; null leaves a hole.
 * @param {{values: (number | null)[], label: string, width?: number, height?: number}} props
 */
export function Sparkline({values, label, width = 120, height = 28}) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const most = Math.max(...known, 0) || 1;
  const x = (index) => (values.length < 2 ? width : (index / (values.length - 1)) * (width - 2) + 1);
  const y = (value) => height - 2 - (value / most) * (height - 4);
  const points = values.map((value, index) => (value == null ? null : `${x(index).toFixed(1)},${y(value).toFixed(1)}`));
  const pieces = pointsInPieces(points);
  return html`<svg class="sparkline" viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} preserveAspectRatio="none" role="img" aria-label=${label}>
    <line class="base" x1="0" x2=${width} y1=${height - 1} y2=${height - 1} />
    ${pieces.map((piece) =>
      piece.length > 1
        ? html`<polyline points=${piece.join(' ')} />`
        : html`<circle cx=${piece[0].split(',')[0]} cy=${piece[0].split(',')[1]} r="1.5" />`,
    )}
  </svg>`;
}

function pointsInPieces(points) {
  const pieces = [[]];
  for (const point of points) {
    if (point === null) pieces.push([]);
    else pieces.at(-1).push(point);
  }
  return pieces.filter((piece) => piece.length);
}

/** A control with its label: the control is the one child. */
export function Field({label, hint, children, class: extra = ''}) {
  const [id] = useState(newId);
  const [{type, props, ref, key}] = [children].flat();
  return html`<div class=${`field ${extra}`}>
    <label for=${id} class="field-label">${label}</label>
    ${h(type, {...props, ref, key, id, 'aria-describedby': hint ? `${id}-hint` : undefined})}
    ${hint && html`<span id=${`${id}-hint`} class="field-hint">${hint}</span>`}
  </div>`;
}

const TYPING_MS = 300;

/**
 * A text that counts once one has stopped typing, if it is a valid one.
 * @param {{label: string, value: string, onValue: (text: string) => void, hint?: any, rule?: string, [attribute: string]: any}} props
 *   `rule` says what a text must be that its `pattern` does not allow
 */
export function Typed({label, hint, rule, value, onValue, ...rest}) {
  const [text, setText] = useState(value);
  const [invalid, setInvalid] = useState(false);
  const told = useRef(value);
  const timer = useRef(0);
  useEffect(() => {
    // What we told comes back without the space before the next word, and more may have been typed since.
    if (value === told.current) return;
    told.current = value;
    clearTimeout(timer.current);
    timer.current = 0;
    setText(value);
    setInvalid(false);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const settle = (input) => {
    clearTimeout(timer.current);
    timer.current = 0;
    setInvalid(!input.validity.valid);
    if (!input.validity.valid) return;
    told.current = input.value.trim();
    onValue(told.current);
  };
  const typed = ({target}) => {
    setText(target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => settle(target), TYPING_MS);
  };
  const settleNow = ({target}) => timer.current && settle(target);
  return html`<${Field} label=${label} hint=${invalid && rule ? rule : hint}>
    <input
      type="text"
      ...${rest}
      value=${text}
      aria-invalid=${invalid ? 'true' : undefined}
      onInput=${typed}
      onBlur=${settleNow}
      onKeyDown=${(event) => event.key === 'Enter' && settleNow(event)}
      spellcheck=${false}
      autocomplete="off"
    />
  <//>`;
}

let ids = 0;
const newId = () => `id-${(ids += 1)}`;

/**
 * A labelled choice.
 * @param {{label: string, value: string, options: (string | {value: string, label: string})[], onChange: (value: string) => void,
 *   hint?: string}} props
 */
export function Select({label, value, options, onChange, hint}) {
  return html`<${Field} label=${label} hint=${hint}>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${options.map((option) => {
        const {value: key, label: text} = typeof option === 'string' ? {value: option, label: option} : option;
        return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
      })}
    </select>
  <//>`;
}

/** Facts in two columns; what is null or undefined is left out. @param {{items: [string, any][]}} props */
export function KeyValue({items}) {
  return html`<dl class="facts">
    ${items
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** A part of a whole as a bar with its figures in words. @param {{part: number, whole: number, label: string, tone?: string}} props */
export function Meter({part, whole, label, tone}) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  const color = tone ?? (share >= 0.9 ? 'bad' : share >= 0.7 ? 'warn' : 'accent');
  return html`<div class=${`meter tone-${color}`} role="img" aria-label=${label}>
    <div class="meter-fill" style=${{width: `${share > 0 ? Math.max(0.5, share * 100) : 0}%`}}></div>
  </div>`;
}
