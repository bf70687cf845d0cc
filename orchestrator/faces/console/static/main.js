/** The console: its frame, its navigation, and which page an address has. */
import {Banner, Header} from './components/frame.js';
import {Empty, Loading, Page, Problem} from './components/ui.js';
import {html, render, useEffect, useErrorBoundary, useState} from './lib/dom.js';
import {connect, disconnect, useLive} from './lib/live.js';
import {beginAtTop, Link, match, useRoute} from './lib/router.js';
import {refresh, restore, useSession} from './lib/session.js';
import './lib/theme.js';

/** Each page is loaded when it is first shown. A new page is one line here, and one in components/frame.js if it has an entry. */
const PAGES = {
  '/': () => import('./pages/live.js'),
  '/console': () => import('./pages/live.js'),
  '/console/executions/:id': () => import('./pages/execution.js'),
  '/console/catalogue': () => import('./pages/catalogue.js'),
  '/console/catalogue/:server/:tool': () => import('./pages/tool.js'),
  '/console/figures': () => import('./pages/figures.js'),
  '/console/try': () => import('./pages/try.js'),
  '/docs': () => import('./pages/docs.js'),
};

function App() {
  const {session, who} = useSession();
  const {connection} = useLive();
  const token = session?.token;
  useEffect(() => {
    if (token) connect();
    return disconnect;
  }, [token]);
  useEffect(() => {
    if (connection === 'open' && !who) refresh(); // the daemon was away when it was asked first
  }, [connection, who]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} />
    ${token && html`<${Banner} />`}
    <main id="main" tabindex="-1">${token ? html`<${Content} />` : html`<${Lazy} load=${signIn} params=${{}} />`}</main>
  `;
}

const signIn = () => import('./pages/signin.js');

/** A fragment in the address would be taken for a place in the page's history. */
function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Content() {
  const {path} = useRoute();
  useEffect(beginAtTop, [path]);
  for (const [pattern, load] of Object.entries(PAGES)) {
    const params = match(pattern, path);
    if (params) return html`<${Lazy} key=${path} load=${load} params=${params} />`;
  }
  return html`<${Page} title="Not found">
    <${Empty} title="There is no page with this address."><p><${Link} href="/">Go to the executions<//></p><//>
  <//>`;
}

function Lazy({load, params}) {
  const [Loaded, setLoaded] = useState(() => loaded.get(load) ?? null);
  const [error, setError] = useState(null);
  const [broken, mend] = useErrorBoundary((problem) => console.error(problem));
  useEffect(() => {
    if (Loaded) return;
    const show = (module) => {
      loaded.set(load, module.default);
      setLoaded(() => module.default);
    };
    load().then(show, () => setError(new Error('This page could not be loaded: the daemon does not answer.')));
  }, [load]);
  if (broken) return html`<${Problem} error=${{message: 'This page has failed.', hint: String(broken)}} retry=${mend} />`;
  if (error) return html`<${Problem} error=${error} retry=${() => location.reload()} />`;
  return Loaded ? html`<${Loaded} params=${params} />` : html`<${Loading} />`;
}

const loaded = new Map();

await restore();
render(html`<${App} />`, document.getElementById('app'));
