/** One version of a skill, with what somebody who approves it has to know. */
import {get} from '../lib/api.js';
import {html, useState} from '../lib/dom.js';
import {count, language as nameOf, visible} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {Link, useRoute} from '../lib/router.js';
import {current, useSession} from '../lib/session.js';
import {asItCounts, asJson, BUILT_IN, onePerVersion, shortVersion} from '../lib/skills.js';
import {Code} from '../components/code.js';
import {SkillActions} from '../components/skill_actions.js';
import {Proof} from '../components/skill_proof.js';
import {RunSkill} from '../components/skill_run.js';
import {Author, Authors, Difference, Moment, Remarks, SkillState, Touches} from '../components/skills.js';
import {Badge, Copy, Empty, KeyValue, Loading, Page, Panel, Problem, Said} from '../components/ui.js';
import {skillPath, skillsPath} from './links.js';
import {Prose} from './prose.js';
import {SchemaTree} from './schema_tree.js';
import {kind, properties} from './schemas.js';

export default function Skill({params: {name}}) {
  const {query} = useRoute();
  return html`<${Version} key=${query.get('version')} name=${name} version=${query.get('version')} />`;
}

function Version({name, version}) {
  const path = `/skills/${encodeURIComponent(name)}`;
  const read = useLoaded(() => get(path, {version}), [path, version]);
  const [failure, setFailure] = useState(null);
  const {error} = read;
  const skill = asItCounts(read.value);
  const heading = html`<span class="execution-title"><span class="skill-name"><${Said} mono>${name}<//></span>${skill && html`<${SkillState} state=${skill.state} />`}</span>`;
  return html`
    <${Page}
      title=${visible(name)}
      heading=${heading}
      lead=${html`<nav class="crumbs" aria-label="Breadcrumbs"><${Link} href=${skillsPath}>Skills<//></nav>`}
      actions=${skill && html`<${SkillActions} skill=${skill} onChange=${read.reload} onError=${setFailure} />`}
    >
      ${failure && html`<${Problem} error=${failure} />`}
      ${error && (error.status === 404 && !skill ? html`<${Missing} error=${error} name=${name} version=${version} />` : html`<${Problem} error=${error} retry=${read.reload} />`)}
      ${!skill && !error && html`<${Loading} label="Loading the skill" />`}
      ${skill && html`<${Shown} skill=${skill} />`}
    <//>
  `;
}

function Missing({error, name, version}) {
  return html`<${Empty} title="There is no such skill that you may use.">
    <p><${Said}>${error.detail}<//></p>
    ${version && html`<p>This version may have been replaced. <${Link} href=${skillPath(name)}>Look at the one in use<//></p>`}
    <p><${Link} href=${skillsPath}>See all skills<//></p>
  <//>`;
}

function Shown({skill}) {
  const {name, version, description, code, language, examples, difference, inferred, remarks} = skill;
  return html`
    <p class="skill-about"><${Said}>${description}<//></p>
    <${Standing} skill=${skill} />
    <div class="beside">
      <div class="beside-main">
        <${Panel} title="What it touches" class="is-touches">
          <${Touches} skill=${skill} linked />
          ${skill.tools.length > 0 && inferred.includes('tools') && html`<p class="note">Its tools were not declared: they are what its code imports, or what it called.</p>`}
          <p class="note">
            Run by its name, or used by a program in the other language, it cannot call any${skill.touches.length > 0 && ' other'} tool. A${' '}
            ${nameOf(language)} program that imports it runs it in its own process, where it could call whatever that program may call.
          </p>
        <//>
        ${remarks.length > 0 && html`<${Panel} title="Remarks"><${Remarks} remarks=${remarks} /><//>`}
        ${difference &&
        html`<${Panel} title="Difference from the approved version" class="is-flush" actions=${html`<${Versions} skill=${skill} />`}><${Difference} text=${difference} /><//>`}
        <${Panel} title="Code" class="is-flush" actions=${html`<span class="muted">${nameOf(language)}</span><${Copy} text=${code} />`}>
          <${Code} code=${code} language=${language} numbered wrapped label="Code of the skill" />
        <//>
        <${Schema} title="Input" schema=${skill.input} inferred=${inferred.includes('input')} empty="It takes no input." />
        <${Schema} title="Result" schema=${skill.output} inferred=${inferred.includes('output')} empty="Nothing is known about it." />
        <${Examples} examples=${examples} inferred=${inferred.includes('examples')} />
      </div>
      <div class="beside-side">
        <${About} skill=${skill} />
        <${Run} key=${version} skill=${skill} />
        <${Proof} skill=${skill} />
      </div>
    </div>
  `;
}

/** Why it is in its state, and what to do about that. */
function Standing({skill}) {
  const {state, author, drift} = skill;
  const {who} = useSession();
  const isOwn = author === current()?.caller;
  if (state === 'proven' && isOwn) {
    const rule = who?.approvesSkills ? 'Whoever saved a skill must not approve it.' : 'Somebody whose role has approvesSkills can approve it.';
    return html`<div class="notice"><p><strong>It waits for approval.</strong> ${rule} Until it is approved, only your key can use it.</p></div>`;
  }
  if (state === 'proven') {
    return html`<div class="notice">
      <p><strong>It waits for approval.</strong> Read what it touches, its code and its examples first: approving gives it to every role that may call these tools.</p>
    </div>`;
  }
  if (state === 'draft') {
    return html`<div class="notice is-warn"><p><strong>Its proof failed, so it is a draft.</strong> Fix what the remarks say, and save it again under the same name. Only its author’s key can use it.</p></div>`;
  }
  if (state === 'stale') {
    return html`<div class="notice is-warn">
      <p><strong>Nobody can use it: what it calls has changed since it was proven.</strong> Save a version that works with the tools and skills as they are now, or restore those that changed.</p>
      <ul class="told" aria-label="What changed">${drift.map((change) => html`<li key=${change}><${Prose} text=${change} /></li>`)}</ul>
    </div>`;
  }
  return state === 'retired' ? html`<div class="notice"><p><strong>It is retired: nobody can use it.</strong> Save it again to propose it again.</p></div>` : null;
}

function Versions({skill: {name, version, approvedVersion}}) {
  return html`
    <span class="note">- <${Link} class="mono" href=${skillPath(name, approvedVersion)}>${shortVersion(approvedVersion)}<//> approved</span>
    <span class="note">+ <span class="mono">${shortVersion(version)}</span> shown here</span>
  `;
}

function Schema({title, schema, inferred, empty}) {
  const hasFields = properties(schema, schema).length > 0;
  const told = kind(schema, schema);
  const saysMore = !['object', 'any'].includes(told); // than its fields do: a list, a number
  return html`<${Panel} title=${title} actions=${inferred && html`<${Badge} tone="info">inferred<//>`}>
    ${inferred && html`<p class="note">This schema was inferred from the code, or from what the proof saw.</p>`}
    ${saysMore && html`<p class="schema-kind"><${Said}>${told}<//></p>`}
    ${hasFields && html`<${SchemaTree} schema=${schema} />`}
    ${!saysMore && !hasFields && html`<p class="note">${empty}</p>`}
    <details class="raw">
      <summary>JSON Schema</summary>
      <${Code} code=${asJson(schema)} language="json" wrapped label=${`JSON Schema of ${title.toLowerCase()}`} />
    </details>
  <//>`;
}

function Examples({examples, inferred}) {
  if (!examples.length) return null;
  return html`<${Panel} title=${examples.length === 1 ? 'Example' : 'Examples'} actions=${inferred && html`<${Badge} tone="info">inferred<//>`}>
    <div class="skill-examples">
      ${examples.map(({input}, index) => html`<${Code} key=${index} code=${asJson(input)} language="json" wrapped label=${`Example ${index + 1}`} />`)}
    </div>
  <//>`;
}

const othersOf = ({name, version}, skills) =>
  onePerVersion(skills.filter((other) => other.name === name && other.version !== version), current()?.caller);

function About({skill}) {
  const {name, version, language, author, createdAt, approvedBy, approvedAt, uses, failures, lastUsedAt} = skill;
  const isSaved = author !== BUILT_IN;
  const others = useLoaded(async () => othersOf(skill, (await get('/skills')).skills), [name, version, skill.state]);
  return html`<${Panel} label="Facts">
    <${KeyValue}
      items=${[
        ['Version', html`<span class="version"><code title=${version}>${shortVersion(version)}</code><${Copy} text=${version} class="quiet" /></span>`],
        ['Language', nameOf(language)],
        ['Author', html`<${Author} author=${author} />`],
        ['Saved', isSaved ? html`<${Moment} at=${createdAt} />` : null],
        ['Approved by', isSaved && approvedBy ? html`<${Said}>${approvedBy}<//>` : null],
        ['Approved', isSaved && approvedAt ? html`<${Moment} at=${approvedAt} />` : null],
        ['Uses', count(uses)],
        ['Failures', failures ? html`<span class="is-bad">${count(failures)}</span>` : '0'],
        ['Last used', lastUsedAt && html`<${Moment} at=${lastUsedAt} />`],
      ]}
    />
    ${others.value?.length > 0 &&
    html`<div>
      <h3>Other versions</h3>
      <ul class="versions">
        ${others.value.map(
          (other) => html`<li key=${other.version}>
            <span>
              <${Link} class="mono" href=${skillPath(name, other.version)}>${shortVersion(other.version)}<//>
              <span class="note"><${Authors} authors=${other.authors} /></span>
            </span>
            <${SkillState} state=${other.state} />
          </li>`,
        )}
      </ul>
    </div>`}
  <//>`;
}

/** Only the version that one's programs would get can be run by its name. */
function Run({skill}) {
  const {name, version, versionInUse} = skill;
  if (versionInUse === version) return html`<${RunSkill} skill=${skill} />`;
  return html`<${Panel} title="Run it">
    <p class="note">
      ${versionInUse
        ? html`Its name runs another version: <${Link} class="mono" href=${skillPath(name, versionInUse)}>${shortVersion(versionInUse)}<//>.`
        : 'You cannot use it now.'}
    </p>
  <//>`;
}
