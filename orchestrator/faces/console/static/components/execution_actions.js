/** What can be done with an execution. */
import {del, post, text} from '../lib/api.js';
import {curl} from '../lib/curl.js';
import {html, useState} from '../lib/dom.js';
import {isUnderWay} from '../lib/filters.js';
import {plural} from '../lib/format.js';
import {navigate} from '../lib/router.js';
import {current} from '../lib/session.js';
import {executionPath} from '../pages/links.js';
import {Confirm} from './confirm.js';
import {canBeKept, SaveSkill} from './save_skill.js';
import {Copy} from './ui.js';

/** @param {{execution: any, program: string | null, onChange: (execution: any) => void, onError: (error: Error | null) => void}} props */
export function ExecutionActions({execution, program: kept, onChange, onError}) {
  const {executionId: id} = execution;
  const program = execution.skill ? null : kept; // as a program, a skill could call more than it declares
  const inputs = execution.inputFiles?.length ?? 0;
  const isForeign = execution.caller !== current()?.caller;
  const [asking, setAsking] = useState(/** @type {'' | 'cancel' | 'again' | 'save'} */ (''));
  const [busy, setBusy] = useState('');
  const doing = (name, work) => async () => {
    setBusy(name);
    onError(null);
    await work().catch(onError);
    setBusy('');
  };
  const cancel = doing('cancel', async () => {
    const ended = await del(`/executions/${encodeURIComponent(id)}`);
    document.querySelector('h1')?.focus({preventScroll: true}); // the button that had the focus goes
    onChange(ended);
  });
  // Somebody else's program does not get into a workspace of ours.
  const asked = () => requestOf({...execution, workspace: isForeign ? undefined : execution.workspace}, program);
  const again = doing('again', async () => {
    const started = await post('/execute', {...asked(), background: true}); // it goes on when this page is closed
    navigate(executionPath(started.executionId));
  });
  const command = () =>
    program === null ? curl(`${location.origin}/executions/${id}`) : curl(`${location.origin}/execute`, asked());
  return html`
    ${isUnderWay(execution) &&
    html`<button type="button" class="danger" disabled=${busy === 'cancel'} onClick=${() => setAsking('cancel')}>${busy === 'cancel' ? 'Cancelling…' : 'Cancel'}</button>`}
    ${program !== null &&
    html`
      <button type="button" disabled=${busy === 'again'} onClick=${() => setAsking('again')}>Run again</button>
      <button type="button" onClick=${() => navigate(`/console/try?from=${encodeURIComponent(id)}`)}>Edit in Try it</button>
    `}
    ${canBeKept(execution, current()?.caller) && html`<button type="button" onClick=${() => setAsking('save')}>Save as a skill</button>`}
    <${Copy} text=${command} label="Copy as curl" />
    <${Copy} text=${() => location.origin + executionPath(id)} label="Copy link" />
    ${asking === 'cancel' &&
    html`<${Confirm} title="Cancel this execution?" yes="Cancel the execution" onYes=${cancel} onClose=${() => setAsking('')}>
      <p>The program stops immediately. Tool calls that were sent are not undone.</p>
    <//>`}
    ${asking === 'save' && html`<${SaveSkill} execution=${execution} onClose=${() => setAsking('')} />`}
    ${asking === 'again' &&
    html`<${Confirm}
      title=${`Run this program again as ${current()?.caller}?`}
      yes="Run it"
      tone="primary"
      onYes=${again}
      onClose=${() => setAsking('')}
    >
      ${isForeign && html`<p><strong>This is <bdi>${execution.caller}</bdi>’s program; it would run with your role.</strong> Read it first.</p>`}
      <p>It may call tools again.${inputs ? ` Its ${plural(inputs, 'input file is', 'input files are')} not sent again.` : ''}</p>
    <//>`}
  `;
}

/** What was asked for, but its input files. */
const requestOf = ({language, limits, workspace, background}, code) => ({
  code,
  language,
  ...(background ? {background} : {}),
  ...(limits ? {timeoutSeconds: limits.timeoutSeconds} : {}),
  ...(workspace ? {workspace: workspace.name} : {}),
});

/** @param {string} id */
export const readProgram = (id) => text(`/executions/${encodeURIComponent(id)}/program`);
