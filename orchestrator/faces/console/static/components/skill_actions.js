/** What can be decided about a skill: approve exactly the version that is shown, or retire it. */
import {post, request} from '../lib/api.js';
import {html, useState} from '../lib/dom.js';
import {plural} from '../lib/format.js';
import {navigate} from '../lib/router.js';
import {current, tell, useSession} from '../lib/session.js';
import {mayApprove, mayRetire, shortVersion} from '../lib/skills.js';
import {skillsPath} from '../pages/links.js';
import {Confirm} from './confirm.js';
import {Remarks, Touches} from './skills.js';
import {Said} from './ui.js';

/** @param {{skill: any, onChange: () => void, onError: (error: Error | null) => void}} props */
export function SkillActions({skill, onChange, onError}) {
  const {name, version, author, remarks} = skill;
  const {who} = useSession();
  const caller = current()?.caller;
  const approves = Boolean(who?.approvesSkills);
  const [asking, setAsking] = useState(/** @type {'' | 'approve' | 'retire'} */ (''));
  const [busy, setBusy] = useState(false);
  const path = `/skills/${encodeURIComponent(name)}`;
  const doing = (work) => async () => {
    setBusy(true);
    onError(null);
    await work().catch(onError);
    setBusy(false);
    document.querySelector('h1')?.focus({preventScroll: true}); // the button that had the focus may go
  };
  const approve = doing(async () => {
    await post(`${path}/approve`, {version}).catch((error) => {
      if (error.code === 'skill_not_proven') error.hint = ''; // it is for the author, and the message says what to do
      throw error;
    });
    onChange();
  });
  const retire = doing(async () => {
    await request('DELETE', path, {params: {version}});
    if (author === caller) return onChange();
    // Only its author sees it from now on.
    tell(`${name} is retired.`);
    return navigate(skillsPath);
  });
  return html`
    ${mayApprove(skill, caller, approves) &&
    html`<button type="button" class="primary" disabled=${busy} onClick=${() => setAsking('approve')}>Approve</button>`}
    ${mayRetire(skill, caller, approves) &&
    html`<button type="button" class="danger" disabled=${busy} onClick=${() => setAsking('retire')}>Retire</button>`}
    ${asking === 'approve' &&
    html`<${Confirm} title="Approve this version?" yes="Approve it" tone="primary" onYes=${approve} onClose=${() => setAsking('')}>
      <p>
        ${skill.touches.length ? 'Every role that may call these tools' : 'Every role'} can then use <${Said} mono>${name}<//>, version${' '}
        <code>${shortVersion(version)}</code>, which <${Said}>${author}<//> saved.
      </p>
      <div class="confirm-touches"><${Touches} skill=${skill} /></div>
      ${remarks.length > 0 &&
      html`<h3>${plural(remarks.length, 'remark')}</h3>
        <div class="confirm-remarks" tabindex="0" role="region" aria-label="Remarks"><${Remarks} remarks=${remarks} /></div>`}
      ${skill.approvedVersion && html`<p>It replaces version <code>${shortVersion(skill.approvedVersion)}</code>.</p>`}
    <//>`}
    ${asking === 'retire' &&
    html`<${Confirm} title=${`Retire ${name}?`} yes="Retire it" onYes=${retire} onClose=${() => setAsking('')}>
      <p>Nobody can use this version any more, and programs that import it fail. It stays in the journal, and cannot be brought back without saving it again.</p>
    <//>`}
  `;
}
