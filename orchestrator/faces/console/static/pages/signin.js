/** Signing in: with the link of the command line, or with a key. */
import {Command, Field, OnPath, Page, Panel, Problem} from '../components/ui.js';
import {html, useEffect, useState} from '../lib/dom.js';
import {signInWithKey, useSession} from '../lib/session.js';

export default function SignIn() {
  const {notice} = useSession();
  const [said, setSaid] = useState('');
  useEffect(() => setSaid(notice), [notice]); // what is there from the start is not read out
  return html`<${Page} title="Sign in" lead="See what agents do, while they do it.">
    <div class="signin">
      <p class=${said ? 'notice' : 'hidden-text'} role="status">${said}</p>
      <${Panel} title="With a link">
        <p>Run this in the installation directory on the daemon’s machine. It opens a link that signs you in; the link works once, for a minute.</p>
        <${Command} text=".venv/bin/code-executor console" />
        <${OnPath} command="code-executor console" />
      <//>
      <${Panel} title="With a key"><${KeyForm} /><//>
    </div>
  <//>`;
}

function KeyForm() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const input = event.target.elements.key;
    setBusy(true);
    setError(null);
    try {
      await signInWithKey(input.value.trim());
    } catch (problem) {
      setError(problem.status === 401 ? {message: 'The daemon does not know this key.', hint: 'Keys are in secrets/, each in a file of its own.'} : problem);
      setBusy(false);
      input.focus();
    }
  };
  return html`<form onSubmit=${submit}>
    <p>The key is exchanged for a session of up to eight hours and is not stored.</p>
    <${Field} label="Key">
      <input name="key" type="password" required autocomplete="off" spellcheck=${false} placeholder="Paste a key from secrets/" />
    <//>
    ${error && html`<${Problem} error=${error} />`}
    <button type="submit" class="primary" disabled=${busy}>${busy ? 'Signing in…' : 'Sign in'}</button>
  </form>`;
}
