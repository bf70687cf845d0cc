/** The parts of a skill that several pages show. */
import {html, useMemo, useState} from '../lib/dom.js';
import {count, fullTime, time, visible} from '../lib/format.js';
import {Link} from '../lib/router.js';
import {BUILT_IN, differenceLines, effectOf, effectsInWords, STATES, toolOf} from '../lib/skills.js';
import {SKILLS, toolPath} from '../pages/links.js';
import {Prose} from '../pages/prose.js';
import {Badge, Said} from './ui.js';

/** @param {{state: string}} props */
export function SkillState({state}) {
  const {label, tone, mark} = STATES[state] ?? {label: state, tone: 'muted', mark: '·'};
  return html`<${Badge} tone=${tone} mark=${mark}>${label}<//>`;
}

/** @param {{author: string}} props */
export const Author = ({author}) => (author === BUILT_IN ? 'built in' : html`<${Said}>${author}<//>`);

/** @param {{authors: string[]}} props */
export const Authors = ({authors}) => authors.map((author, index) => html`${index > 0 && ', '}<${Author} key=${author} author=${author} />`);

/** @param {{at: string | null}} props */
export const Moment = ({at}) => (at ? html`<time datetime=${at} title=${fullTime(at)}>${time(at)}</time>` : null);

/** A tool, or a skill, by its path; it leads to its page. @param {{path: string}} props */
export function ToolLink({path}) {
  const [server, tool] = toolOf(path);
  return html`<${Link} class="mono" href=${toolPath(server, tool)}><${Said}>${path}<//><//>`;
}

/**
 * What a skill touches, through others, too, with what each tool does to data.
 * @param {{skill: any, linked?: boolean}} props `linked`: whether the tools lead to their pages
 */
export function Touches({skill, linked = false}) {
  const {touches, tools} = skill;
  const used = tools.filter((path) => toolOf(path)[0] === SKILLS);
  return html`
    <p class="touches-summary">${effectsInWords(touches)}</p>
    ${touches.length > 0 &&
    html`<ul class="touches">
      ${touches.map((touched) => {
        const {label, tone, mark} = effectOf(touched);
        return html`<li key=${touched.tool}>
          <span class="touches-tool">
            ${linked ? html`<${ToolLink} path=${touched.tool} />` : html`<${Said} mono>${touched.tool}<//>`}
            ${!tools.includes(touched.tool) && html`<span class="note">through a skill that it uses</span>`}
          </span>
          <${Badge} tone=${tone} mark=${mark}>${label}<//>
        </li>`;
      })}
    </ul>`}
    ${used.length > 0 &&
    html`<p class="note">It uses ${used.map((path, index) => html`${index > 0 && ', '}${linked ? html`<${ToolLink} path=${path} />` : html`<${Said} mono>${path}<//>`}`)}.</p>`}
  `;
}

/** @param {{remarks: {kind: string, message: string, place: string}[]}} props */
export function Remarks({remarks}) {
  return html`<ul class="told remarks">
    ${remarks.map(
      ({kind, message, place}, index) => html`<li key=${index}>
        <span class="remark-kind"><${Said}>${kind}<//></span>${place && html`<code><${Said}>${place}<//></code>`}
        <div><${Prose} text=${message} /></div>
      </li>`,
    )}
  </ul>`;
}

const SIGNS = {added: '+', removed: '-', same: ' '};
const MOST_LINES = 1500; // until one asks for all

/** A unified diff: each line has its sign, so that the colour does not stand alone. @param {{text: string}} props */
export function Difference({text}) {
  const [all, setAll] = useState(false);
  const lines = useMemo(() => differenceLines(text), [text]);
  const shown = all ? lines : lines.slice(0, MOST_LINES);
  return html`
    <pre class="code is-wrapped difference" tabindex="0" role="region" aria-label="Difference"><code>${shown.map(
      ({kind, text: line}, index) =>
        kind === 'gap'
          ? index > 0 && html`<span key=${index} class="line is-gap">⋯${'\n'}</span>`
          : html`<span key=${index} class=${`line is-${kind}`}><span class="sign">${SIGNS[kind]}</span>${visible(line)}${'\n'}</span>`,
    )}</code></pre>
    ${shown.length < lines.length &&
    html`<button type="button" class="more" onClick=${() => setAll(true)}>Show all ${count(lines.length)} lines</button>`}
  `;
}
