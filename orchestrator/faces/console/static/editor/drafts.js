/** The programs of a caller in this tab, one for each language. They outlive a reload, and nothing takes the place of one unasked. */
import {current} from '../lib/session.js';
import {starter} from './programs.js';

const key = (name) => `code-executor.draft.${current()?.caller}.${name}`;
const unkept = new Map(); // what the browser has no room for; it lasts until a reload

const read = (name) => unkept.get(key(name)) ?? sessionStorage.getItem(key(name));

function write(name, value) {
  unkept.delete(key(name));
  try {
    sessionStorage.setItem(key(name), value);
  } catch {
    unkept.set(key(name), value);
  }
}

function remove(name) {
  unkept.delete(key(name));
  sessionStorage.removeItem(key(name));
}

export const keptLanguage = () => read('language');
export const keepLanguage = (language) => write('language', language);

export const draftOf = (language) => read(language) ?? starter(language);
export const keepDraft = (language, text) => write(language, text);

/** Whether somebody has written in the program since it was put there. */
export const isChanged = (language) => ![starter(language), read(`${language}.origin`)].includes(draftOf(language));

/** Put another program in the place of the draft, for good. */
export function replaceDraft(language, text) {
  write(language, text);
  write(`${language}.origin`, text);
  dropOwner(language);
}

/** Whose program the draft is, until it is accepted as one's own; null for one's own. */
export const ownerOf = (language) => read(`${language}.owner`);
export const keepOwner = (language, caller) => write(`${language}.owner`, caller);
export const dropOwner = (language) => remove(`${language}.owner`);

/** Keep the draft for later, if somebody has written it. */
export function setAside(language) {
  if (isChanged(language)) write(`${language}.aside`, draftOf(language));
}

export const asideOf = (language) => read(`${language}.aside`);
export const dropAside = (language) => remove(`${language}.aside`);

/** Take back what was set aside; what was written since takes its place. @returns {string} */
export function takeBack(language) {
  const text = asideOf(language);
  dropAside(language);
  setAside(language);
  dropOwner(language);
  write(language, text);
  return text;
}
