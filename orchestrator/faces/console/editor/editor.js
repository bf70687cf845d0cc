// The editor of the console: CodeMirror, put together once when the images are made. It knows nothing of tools or of the API.
import {autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap} from '@codemirror/autocomplete';
import {defaultKeymap, history, historyKeymap, indentWithTab} from '@codemirror/commands';
import {javascript} from '@codemirror/lang-javascript';
import {globalCompletion, localCompletionSource, pythonLanguage} from '@codemirror/lang-python';
import {
  HighlightStyle,
  LanguageSupport,
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from '@codemirror/language';
import {EditorState, Prec, StateEffect, StateField} from '@codemirror/state';
import {
  Decoration,
  EditorView,
  WidgetType,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view';
import {tags} from '@lezer/highlight';

// As in ../static/lib/format.js, which is no part of this bundle.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u2800\ufff9-\ufffb]|\p{Cs}|(?![\u200c\u200d\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}|[\u200c\u200d](?!(?<=[\p{L}\p{M}].)[\p{L}\p{M}]|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}]\ufe0f?\u200d)\p{Extended_Pictographic})|[\ufe0e\ufe0f](?<!\p{Extended_Pictographic}.)(?!(?<=[0-9#*].)\u20e3)/gu;

const LANGUAGES = {
  typescript: () => [javascript({typescript: true}), indentUnit.of('  ')],
  python: () => [python(), indentUnit.of('    ')],
};

/** Python as CodeMirror has it, but names such as __spec__ are offered only to those who begin to type one. */
function python() {
  const known = (context) => {
    const found = globalCompletion(context);
    const wantsAll = context.matchBefore(/\w*/).text.startsWith('_');
    return found && {...found, options: found.options.filter(({label}) => wantsAll || !label.startsWith('__'))};
  };
  const sources = [localCompletionSource, known];
  return new LanguageSupport(pythonLanguage, sources.map((autocomplete) => pythonLanguage.data.of({autocomplete})));
}

// Variables of the page reach into a ShadowRoot, so both themes are one.
const theme = EditorView.theme({
  '&': {color: 'var(--text)', backgroundColor: 'var(--code-bg)', height: '100%', fontSize: '0.875rem'},
  '&.cm-focused': {outline: 'none'},
  '.cm-scroller': {fontFamily: 'var(--mono)', lineHeight: '1.6', overflow: 'auto'},
  '.cm-content': {caretColor: 'var(--text)', padding: '12px 0'},
  '.cm-line': {padding: '0 16px 0 8px'},
  '.cm-gutters': {backgroundColor: 'var(--code-bg)', color: 'var(--muted)', border: 'none'},
  '.cm-lineNumbers .cm-gutterElement': {padding: '0 8px 0 16px', minWidth: '48px'},
  '.cm-activeLine, .cm-activeLineGutter': {backgroundColor: 'color-mix(in srgb, var(--accent) 7%, transparent)'},
  '.cm-cursor': {borderLeftColor: 'var(--text)'},
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '&.cm-focused .cm-matchingBracket': {backgroundColor: 'color-mix(in srgb, var(--accent) 22%, transparent)'},
  '&.cm-focused .cm-nonmatchingBracket': {backgroundColor: 'color-mix(in srgb, var(--bad) 22%, transparent)'},
  '.cm-specialChar': {color: 'var(--bad)'},
  '.cm-tooltip': {
    backgroundColor: 'var(--surface)',
    color: 'var(--text)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    boxShadow: '0 6px 24px rgb(0 0 0 / 18%)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': {fontFamily: 'var(--mono)', maxHeight: '16em', maxWidth: 'min(560px, 80vw)', borderRadius: '7px'},
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': {padding: '3px 12px 3px 8px', lineHeight: '1.5'},
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--accent-text)',
  },
  '.cm-completionDetail': {fontStyle: 'normal', marginLeft: '1.5em', opacity: '0.8'},
  '.cm-completionMatchedText': {textDecoration: 'none', fontWeight: '700'},
  '.cm-tooltip.cm-completionInfo': {padding: '8px 12px', maxWidth: '360px', fontFamily: 'var(--sans)', unicodeBidi: 'isolate'},
  '.cm-completionIcon': {opacity: '0.7', width: '1.2em', paddingRight: '0.4em'},
  '.cm-mistakeLine': {backgroundColor: 'color-mix(in srgb, var(--bad) 10%, transparent)'},
  // A margin would not count in what CodeMirror measures, and the numbers of later lines would be beside others.
  '.cm-mistake': {padding: '2px 16px 6px 8px'},
  '.cm-mistake > div': {
    padding: '4px 10px',
    borderLeft: '3px solid var(--bad)',
    backgroundColor: 'color-mix(in srgb, var(--bad) 10%, transparent)',
    color: 'var(--text)',
    fontFamily: 'var(--sans)',
    fontSize: '0.8125rem',
    whiteSpace: 'pre-wrap',
    overflowWrap: 'anywhere',
    unicodeBidi: 'isolate',
  },
});

const colours = HighlightStyle.define([
  {tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.self], color: 'var(--hl-keyword)'},
  {tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--hl-string)'},
  {tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--hl-number)'},
  {tag: [tags.comment], color: 'var(--hl-comment)', fontStyle: 'italic'},
  {tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: 'var(--hl-call)'},
  {tag: [tags.typeName, tags.className, tags.namespace], color: 'var(--hl-type)'},
]);

const showMistakes = StateEffect.define();

class Mistake extends WidgetType {
  constructor(message) {
    super();
    this.message = message;
  }

  eq(other) {
    return other.message === this.message;
  }

  toDOM() {
    const element = document.createElement('div');
    element.className = 'cm-mistake';
    element.appendChild(document.createElement('div')).textContent = this.message;
    return element;
  }
}

function decorated(document, mistakes) {
  const decorations = [];
  for (const {line, message} of mistakes) {
    const {from, to} = document.line(Math.min(Math.max(line, 1), document.lines));
    decorations.push(Decoration.line({class: 'cm-mistakeLine'}).range(from));
    decorations.push(Decoration.widget({widget: new Mistake(message), block: true, side: 1}).range(to));
  }
  return Decoration.set(decorations, true);
}

// What is wrong stands below its line until the program is changed there.
const mistakesShown = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(showMistakes)) return decorated(transaction.newDoc, effect.value);
    }
    return shown.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

// Typed over several lines, Chromium would merge them itself and put style attributes on what is left, which the page's
// policy forbids.
const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const {main} = view.state.selection;
    if (event.inputType !== 'insertText' || !event.data || view.composing || main.empty) return false;
    const insert = () => view.state.update(view.state.replaceSelection(event.data), {userEvent: 'input.type', scrollIntoView: true});
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, main.from, main.to, event.data, insert))) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

/**
 * Makes an editor in a ShadowRoot, where its styles need no <style>. Each language has a program of its own, with what can
 * be undone in it.
 *
 * `complete(text, position, explicit)` promises `{from, options}` or null; an option may have `imports`, a function that
 * returns `{at, line}` for what has to be inserted elsewhere, and `cursor`, where to be afterwards within what it inserts.
 * `onChange(text, language)` is told of each change.
 */
export function createEditor({root, text, language, label, description, complete, onChange, onRun}) {
  const source = async ({state, pos, explicit}) => {
    const found = await complete(state.doc.toString(), pos, explicit);
    return found && {...found, options: found.options.map(applicable)};
  };
  const run = () => {
    onRun();
    return true;
  };
  const stateOf = (doc, spoken) =>
    EditorState.create({
      doc,
      extensions: [
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightSpecialChars({addSpecialChars: HIDDEN}),
        history(),
        drawSelection(),
        EditorView.lineWrapping,
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        autocompletion({icons: true}),
        EditorState.languageData.of(() => [{autocomplete: source}]),
        Prec.highest(keymap.of([{key: 'Mod-Enter', run}])),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
        LANGUAGES[spoken](),
        syntaxHighlighting(colours),
        theme,
        mistakesShown,
        typeOverSelection,
        EditorView.contentAttributes.of({'aria-label': label, 'aria-description': description, spellcheck: 'false', tabindex: '0'}),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString(), spoken);
        }),
      ],
    });
  const view = new EditorView({root, parent: root, state: stateOf(text, language)});
  const left = new Map(); // the states of the languages that are not shown
  let shown = language;
  return {
    text: () => view.state.doc.toString(),
    show(changed, spoken) {
      if (spoken !== shown) {
        left.set(shown, view.state);
        view.setState(left.get(spoken) ?? stateOf(changed, spoken));
        shown = spoken;
      }
      if (view.state.doc.toString() === changed) return;
      view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: changed}, effects: showMistakes.of([])});
    },
    showMistakes: (mistakes) => view.dispatch({effects: showMistakes.of(mistakes)}),
    goTo(line) {
      const {from} = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines));
      view.dispatch({selection: {anchor: from}, effects: EditorView.scrollIntoView(from, {y: 'center'})});
      view.focus();
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

function applicable({insert, cursor, imports, ...option}) {
  if (insert === undefined) return option;
  return {
    ...option,
    apply(view, _, from, to) {
      const added = imports?.(view.state.doc.toString());
      const changes = added ? [{from: added.at, insert: added.line}] : [];
      const before = added && added.at <= from ? added.line.length : 0;
      view.dispatch({
        changes: [...changes, {from, to, insert}],
        selection: {anchor: before + from + (cursor ?? insert.length)},
        userEvent: 'input.complete',
      });
    },
  };
}
