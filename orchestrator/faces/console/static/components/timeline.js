/** The tool calls of an execution: a bar for each, in lanes, so that none hides another; and the same as a table. */
import {html, useLayoutEffect, useMemo, useRef, useState} from '../lib/dom.js';
import {bytes, count, ms, plural, visible, words} from '../lib/format.js';
import {bestZoom, isUnderWay, layout, leastMsOf, NARROWEST, neighbour, summary, ticks} from '../lib/timeline.js';
import {Badge, Tabs} from './ui.js';

const OUTCOMES = {
  done: {tone: 'ok', mark: '✓'},
  tool_error: {tone: 'bad', mark: '✕'},
  denied: {tone: 'bad', mark: '⊘'},
  invalid: {tone: 'warn', mark: '?'},
  unavailable: {tone: 'warn', mark: '!'},
  limited: {tone: 'warn', mark: '▲'},
  in_flight: {tone: 'info', mark: '●'},
  never_sent: {tone: 'muted', mark: '○'},
  replayed: {tone: 'muted', mark: '↺'},
};
const MOST_ZOOM = 64;
const EDGE = 12; // pixels left and right of the plot
const LABEL = 60; // pixels of a tick's label at most

/** @param {{title?: string, calls: import('../lib/timeline.js').Call[], running?: boolean, nowMs?: number}} props */
export function Timeline({title, calls, running = false, nowMs = 0}) {
  const [view, setView] = useState('bars');
  const plan = useMemo(() => layout(calls, {running, nowMs}), [calls, running, nowMs]);
  const {busyMs, most} = useMemo(() => summary(plan.bars), [plan]);
  return html`<${Tabs}
    title=${title}
    label="Tool calls as"
    tabs=${[{id: 'bars', label: 'Timeline'}, {id: 'table', label: 'Table'}]}
    selected=${view}
    onSelect=${setView}
    actions=${html`<span class="muted">${plural(calls.length, 'call')}, ${most > 1 ? `up to ${count(most)} at once, ` : ''}${ms(busyMs)} in calls</span>`}
  >
    ${view === 'bars' ? html`<${Bars} calls=${calls} plan=${plan} running=${running} nowMs=${nowMs} />` : html`<${Table} bars=${plan.bars} running=${running} />`}
  <//>`;
}

function Bars({calls, plan, running, nowMs}) {
  const box = useRef(null);
  const [width, setWidth] = useState(800);
  const [zoom, setZoom] = useState(0); // 0: what fits best
  const [active, setActive] = useState(/** @type {number | null} */ (null));
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{contentRect}]) => setWidth(contentRect.width));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const {endMs} = plan;
  const scale = zoom || bestZoom(plan.bars, width);
  const plot = Math.max(100, (width - 2 * EDGE) * scale);
  const {bars, lanes} = useMemo(() => layout(calls, {running, nowMs, leastMs: leastMsOf(endMs, plot)}), [plan, plot]);
  const x = (at) => EDGE + (endMs ? (at / endMs) * plot : 0);
  const laneHeight = lanes <= 8 ? 26 : lanes <= 24 ? 20 : 17;
  const chosen = bars.find((bar) => bar.number === active);
  // Another scale keeps the call in view that somebody looks at, or the first.
  useLayoutEffect(() => {
    const looked = chosen ?? bars[0];
    if (looked) box.current.scrollLeft = x(looked.startedMs) - width / 3;
  }, [scale]);
  const focusable = chosen?.number ?? bars[0]?.number;
  const keys = (event) => {
    const next = chosen && /^(Arrow|Home$|End$)/.test(event.key) && neighbour(bars, chosen, event.key);
    if (!next) return;
    event.preventDefault();
    setActive(next.number);
    box.current.querySelector(`[data-call="${next.number}"]`)?.focus();
  };
  return html`
    <div class="timeline">
      <div class="timeline-scroll" ref=${box} tabindex="-1">
        <div class="timeline-plot" style=${{width: `${plot + 2 * EDGE}px`, height: `${lanes * laneHeight + 34}px`}} role="group"
          aria-label="Tool calls over time; arrow keys move between them" onKeyDown=${keys} onMouseLeave=${() => setActive(null)}>
          ${ticks(endMs, Math.max(2, Math.floor(plot / 110))).map(
            (at) => html`<div key=${at} class=${`tick ${x(at) + LABEL > plot + 2 * EDGE ? 'is-at-end' : ''}`} style=${{left: `${x(at)}px`}} aria-hidden="true"><span>${ms(at)}</span></div>`,
          )}
          ${bars.map((bar) => {
            const wide = Math.max(NARROWEST, x(bar.endMs) - x(bar.startedMs) - 1);
            return html`<${Bar} key=${bar.number} bar=${bar} running=${running} focusable=${bar.number === focusable} left=${x(bar.startedMs)} top=${26 + bar.lane * laneHeight}
              width=${wide} height=${laneHeight - 3} active=${bar.number === active} onActive=${setActive} />`;
          })}
        </div>
      </div>
      <div class="timeline-foot">
        <div class="timeline-said">${chosen ? html`<${Facts} bar=${chosen} running=${running} />` : html`<${Legend} bars=${bars} running=${running} />`}</div>
        <div class="actions" role="group" aria-label="Zoom">
          <button type="button" class="icon-button" aria-label="Zoom out" title="Zoom out" disabled=${scale <= 1} onClick=${() => setZoom(scale / 2)}>−</button>
          <button type="button" class="icon-button" aria-label="Zoom in" title="Zoom in" disabled=${scale >= MOST_ZOOM} onClick=${() => setZoom(scale * 2)}>+</button>
          <button type="button" disabled=${scale === 1} onClick=${() => setZoom(1)}>Fit</button>
        </div>
      </div>
    </div>
  `;
}

function Bar({bar, running, left, top, width, height, active, focusable, onActive}) {
  const outcome = isUnderWay(bar, running) ? 'in_flight' : bar.outcome;
  const name = `${visible(bar.server)}/${visible(bar.tool)}`;
  const choose = () => onActive(bar.number);
  return html`<button
    type="button"
    data-call=${bar.number}
    class=${`call call-${outcome} ${active ? 'is-active' : ''}`}
    style=${{left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`, lineHeight: `${height}px`}}
    tabindex=${focusable ? 0 : -1}
    aria-label=${`${name}: ${told(bar, running)}`}
    onFocus=${choose}
    onMouseEnter=${choose}
    onClick=${choose}
  >${width > 48 && html`<span><bdi>${visible(bar.tool)}</bdi></span>`}</button>`;
}

/** A call in words, for those who do not see its bar. */
function told(bar, running) {
  const lasting = bar.endMs - bar.startedMs;
  const times = isUnderWay(bar, running) ? `under way for ${ms(lasting)}` : `${words(bar.outcome)}, took ${ms(lasting)}`;
  return `${times}, from ${ms(bar.startedMs)}, sent ${bytes(bar.requestBytes)}, got ${bytes(bar.resultBytes)}`;
}

function Facts({bar, running}) {
  return html`<div class="call-facts">
    <strong class="mono"><bdi>${visible(bar.server)}</bdi>/<bdi>${visible(bar.tool)}</bdi></strong>
    <${CallOutcome} bar=${bar} running=${running} />
    <span>${ms(bar.endMs - bar.startedMs)} from ${ms(bar.startedMs)}</span>
    <span>sent ${bytes(bar.requestBytes)}, got ${bytes(bar.resultBytes)}</span>
    ${bar.detail && html`<span class="muted"><bdi>${visible(bar.detail)}</bdi></span>`}
  </div>`;
}

function Legend({bars, running}) {
  const counts = new Map();
  for (const bar of bars) {
    const outcome = isUnderWay(bar, running) ? 'in_flight' : bar.outcome;
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  return html`<div class="call-legend">
    ${[...counts].map(([outcome, number]) => html`<span key=${outcome}><i class=${`call call-${outcome}`}></i>${words(outcome)} ${count(number)}</span>`)}
    <span class="muted">Hover over or tap a call, or use the arrow keys.</span>
  </div>`;
}

function CallOutcome({bar, running}) {
  const outcome = isUnderWay(bar, running) ? 'in_flight' : bar.outcome;
  const {tone, mark} = OUTCOMES[outcome] ?? OUTCOMES.never_sent;
  return html`<${Badge} tone=${tone} mark=${mark}>${words(outcome)}<//>`;
}

function Table({bars, running}) {
  return html`<div class="table-scroll is-tall" tabindex="0" role="region" aria-label="Tool calls">
    <table>
      <thead>
        <tr>
          <th scope="col" class="number">#</th>
          <th scope="col">Tool</th>
          <th scope="col">Outcome</th>
          <th scope="col" class="number">Start</th>
          <th scope="col" class="number">Time</th>
          <th scope="col" class="number">Sent</th>
          <th scope="col" class="number">Got</th>
          <th scope="col">Detail</th>
        </tr>
      </thead>
      <tbody>
        ${bars.map(
          (bar) => html`<tr key=${bar.number}>
            <td class="number muted">${bar.number + 1}</td>
            <td class="mono"><bdi>${visible(bar.server)}</bdi>/<bdi>${visible(bar.tool)}</bdi></td>
            <td><${CallOutcome} bar=${bar} running=${running} /></td>
            <td class="number">${ms(bar.startedMs)}</td>
            <td class="number">${ms(bar.endMs - bar.startedMs)}</td>
            <td class="number">${bytes(bar.requestBytes)}</td>
            <td class="number">${bytes(bar.resultBytes)}</td>
            <td class="call-detail"><bdi>${visible(bar.detail)}</bdi></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
