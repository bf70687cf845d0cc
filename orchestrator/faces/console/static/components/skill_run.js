/** Runs a skill with an input that one writes, and leads to its execution. */
import {curl} from '../lib/curl.js';
import {html, useState} from '../lib/dom.js';
import {navigate} from '../lib/router.js';
import {asJson, effectsInWords, inputOf} from '../lib/skills.js';
import {beginRun} from '../lib/skill_runs.js';
import {executionPath} from '../pages/links.js';
import {Copy, Field, Panel, Problem} from './ui.js';

/** @param {{skill: any}} props one that the caller's programs would get by this name */
export function RunSkill({skill}) {
  const {name, touches, examples} = skill;
  const [text, setText] = useState(() => asJson(examples[0]?.input ?? {}));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const {input, problem} = inputOf(text, examples[0]?.input);
  const run = async (event) => {
    event.preventDefault();
    if (!input || busy) return;
    setBusy(true);
    setError(null);
    try {
      navigate(executionPath(await beginRun(name, input)));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const command = () => curl(`${location.origin}/skills/${encodeURIComponent(name)}/run`, {input: input ?? {}});
  return html`<${Panel} title="Run it">
    <form class="skill-form" onSubmit=${run}>
      <p class="note">It runs for real, with your role. ${effectsInWords(touches)}</p>
      <${Field} label="Input, as JSON" hint=${problem}>
        <textarea class="mono" rows="6" spellcheck=${false} value=${text} aria-invalid=${problem ? 'true' : undefined} onInput=${({target}) => setText(target.value)}></textarea>
      <//>
      ${error && html`<${Problem} error=${error} />`}
      <div class="actions">
        <button type="submit" class="primary" disabled=${busy || !input}>${busy ? 'Starting…' : 'Run it'}</button>
        <${Copy} text=${command} label="Copy as curl" />
      </div>
    </form>
  <//>`;
}
