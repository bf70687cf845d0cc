/** Keeps the program of an execution as a skill. */
import {post} from '../lib/api.js';
import {html, useEffect, useRef, useState} from '../lib/dom.js';
import {navigate} from '../lib/router.js';
import {inputOf} from '../lib/skills.js';
import {skillPath} from '../pages/links.js';
import {Dialog} from './confirm.js';
import {Field, Loading, Problem} from './ui.js';

const RULE = 'Lower-case words joined by underscores, such as weekly_report, up to 60 characters.';
const MOST_DESCRIBED = 300; // characters

/** Whether an execution is one that its caller could keep. @param {any} execution @param {string | undefined} caller */
export const canBeKept = (execution, caller) =>
  execution.programKept && execution.outcome === 'completed' && execution.kind !== 'call' && !execution.skill && execution.caller === caller;

/** @param {{execution: any, onClose: () => void}} props */
export function SaveSkill({execution, onClose}) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const [example, setExample] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const dialog = useRef(null);
  const isHere = useIsHere();
  const {input, problem} = inputOf(example.trim() || '{}');
  const calls = execution.toolCallCount ?? 0;
  const nameIt = ({target}) => {
    target.setCustomValidity(''); // a browser would say only that it does not match
    if (target.validity.patternMismatch) target.setCustomValidity(RULE);
    setName(target.value);
  };
  const save = async (event) => {
    event.preventDefault();
    if (!input || busy) return;
    setBusy(true);
    setError(null);
    try {
      const examples = example.trim() ? {examples: [{input}]} : {};
      const saved = await post('/skills', {name: name.trim(), description: description.trim(), fromExecution: execution.executionId, ...examples});
      if (isHere.current) navigate(skillPath(saved.name, saved.version));
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Save as a skill" busy=${busy} onClose=${onClose} element=${dialog}>
    <form class="skill-form" onSubmit=${save}>
      <p>
        What the program prints last becomes the result. Others can call it by name once somebody has approved it. To prove it,${' '}
        <strong>the program runs again for real</strong>${calls > 0 && ', and whatever its tool calls change is changed again'}.
      </p>
      <${Field} label="Name" hint=${RULE}>
        <input type="text" required pattern="[a-z][a-z0-9]*(_[a-z0-9]+)*" maxlength="60" spellcheck=${false} autocomplete="off" value=${name} title=${RULE} onInput=${nameIt} />
      <//>
      <${Field} label="Description" hint="What it does, in one line. Search finds it by this.">
        <input type="text" required maxlength=${MOST_DESCRIBED} autocomplete="off" value=${description} onInput=${({target}) => setDescription(target.value)} />
      <//>
      <${Field} label="Example input, as JSON (optional)" hint=${problem || 'Names of variables that the program sets once to a plain value become the parameters of the skill, such as {"status": "shipped"}.'}>
        <textarea class="mono" rows="3" spellcheck=${false} value=${example} aria-invalid=${problem ? 'true' : undefined} onInput=${({target}) => setExample(target.value)}></textarea>
      <//>
      ${error && html`<${Problem} error=${error} />`}
      ${busy && html`<${Loading} label="Proving it: the program runs again for real" />`}
      <div class="actions">
        <button type="button" disabled=${busy} onClick=${() => dialog.current.close()}>Go back</button>
        <button type="submit" class="primary" disabled=${busy || !input}>Save and prove it</button>
      </div>
    </form>
  <//>`;
}

/** Whoever has gone to another page meanwhile stays there. */
function useIsHere() {
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  return isHere;
}
