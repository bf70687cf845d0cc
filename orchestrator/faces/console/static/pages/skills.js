/** The skills that one may use, that one saved, and that wait for somebody's approval. */
import {get} from '../lib/api.js';
import {html} from '../lib/dom.js';
import {ago, count, language, plural} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {Link, setQuery, useRoute} from '../lib/router.js';
import {current} from '../lib/session.js';
import {countedByState, onePerVersion, shortVersion, STATES} from '../lib/skills.js';
import {Authors, SkillState, ToolLink} from '../components/skills.js';
import {Command, Empty, Loading, Page, Panel, Problem, Said} from '../components/ui.js';
import {skillPath} from './links.js';

export default function Skills() {
  const listed = useLoaded(() => get('/skills'), []);
  const {query} = useRoute();
  const wanted = query.get('state') ?? '';
  return html`
    <${Page} title="Skills" lead="Functions that were kept and proven, for agents to call by name.">
      ${listed.error && html`<${Problem} error=${listed.error} retry=${listed.reload} />`}
      ${!listed.value && !listed.error && html`<${Loading} label="Loading the skills" />`}
      ${listed.value && (listed.value.skills.length ? html`<${Shown} ...${listed.value} wanted=${wanted} />` : html`<${NothingYet} />`)}
    <//>
  `;
}

function NothingYet() {
  return html`<${Panel} label="Skills">
    <${Empty} title="There is no skill that you may use yet.">
      <p>Keep a function from a terminal. Or open an execution of yours that completed, and save its program as a skill.</p>
      <${Command} text=".venv/bin/code-executor skills save FILE --name NAME --description TEXT" />
      <p>Agents keep what they wrote with <code>save_skill</code>.</p>
    <//>
  <//>`;
}

function Shown({skills: listed, suggestions, wanted}) {
  const skills = onePerVersion(listed, current()?.caller);
  const shown = wanted ? skills.filter(({state}) => state === wanted) : skills;
  return html`
    <${Suggestions} suggestions=${suggestions} skills=${skills} />
    <${Panel} title=${plural(shown.length, 'skill')} class="is-flush" actions=${html`<${StateFilter} skills=${skills} wanted=${wanted} />`}>
      ${shown.length > 0
        ? html`<ul class="skills">
            ${shown.map((skill) => html`<${Entry} key=${`${skill.name} ${skill.version}`} skill=${skill} isOne=${isOnlyOne(skill, skills)} />`)}
          </ul>`
        : html`<${Empty} title=${wanted === 'proven' ? 'No skill waits for approval.' : 'No skill is in this state.'}>
            <button type="button" onClick=${() => setQuery({state: ''})}>Show all skills</button>
          <//>`}
    <//>
  `;
}

const isOnlyOne = ({name}, skills) => skills.filter((other) => other.name === name).length === 1;

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Only the states that there are, and always what waits. */
function StateFilter({skills, wanted}) {
  const numbers = countedByState(skills);
  const choices = ['', ...Object.keys(STATES).filter((state) => state === 'proven' || state === wanted || numbers.has(state))];
  return html`<div class="choices skill-states" role="group" aria-label="Show">
    ${choices.map(
      (state) => html`<button key=${state} type="button" aria-pressed=${String(state === wanted)} onClick=${() => setQuery({state}, {replace: false})}>
        ${capital(STATES[state]?.label ?? 'all')} <span class="amount muted">${count(state ? (numbers.get(state) ?? 0) : skills.length)}</span>
      </button>`,
    )}
  </div>`;
}

function Suggestions({suggestions, skills}) {
  if (!suggestions.length) return null;
  return html`<${Panel} title="Could be retired">
    <ul class="told">
      ${suggestions.map((text) => {
        const name = skills.find((skill) => text.startsWith(`${skill.name}:`))?.name;
        return html`<li key=${text}>
          ${name ? html`<${Link} class="mono" href=${skillPath(name)}><${Said}>${name}<//><//><${Said}>${text.slice(name.length)}<//>` : html`<${Said}>${text}<//>`}
        </li>`;
      })}
    </ul>
    <p class="note">Nothing is retired automatically.</p>
  <//>`;
}

function Entry({skill, isOne}) {
  const {name, version, state, description, authors, tools, uses, failures, lastUsedAt} = skill;
  return html`<li>
    <div class="skills-head">
      <${Link} class="tool-name" href=${skillPath(name, isOne ? undefined : version)}><${Said} mono>${name}<//><//>
      <${SkillState} state=${state} />
      <span class="note">${language(skill.language)} · <${Authors} authors=${authors} />${!isOne && html` · version <code>${shortVersion(version)}</code>`}</span>
      <span class="usage note skills-use">
        <span>${uses ? plural(uses, 'use') : 'not used yet'}</span>
        ${failures > 0 && html`<span class="is-bad">${plural(failures, 'failure')}</span>`}
        ${lastUsedAt && html`<span>last ${ago(lastUsedAt)}</span>`}
      </span>
    </div>
    <p class="skills-about"><${Said}>${description}<//></p>
    ${tools.length > 0 && html`<p class="skills-tools note">calls ${tools.map((path, index) => html`${index > 0 && ' '}<${ToolLink} key=${path} path=${path} />`)}</p>`}
  </li>`;
}
