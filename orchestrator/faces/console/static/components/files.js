/** Files that an execution left, and pictures that it showed. */
import {blob} from '../lib/api.js';
import {html, useEffect, useMemo, useState} from '../lib/dom.js';
import {bytes, fileName, plural} from '../lib/format.js';
import {useLoaded} from '../lib/load.js';
import {canBeShown, decoded, MOST_SHOWN, picture, save} from '../lib/pictures.js';
import {LeftOut} from './execution_facts.js';
import {Panel, Problem} from './ui.js';

/** @param {{execution: any}} props */
export function Files({execution}) {
  const {files, filesLeftOut, filesLeftOutCount} = execution;
  const [error, setError] = useState(null);
  if (!files?.length && !filesLeftOutCount) return null;
  const pictures = files.filter(canBeShown);
  const previewed = new Set(pictures.slice(0, MOST_SHOWN));
  return html`<${Panel} title="Files">
    ${error && html`<${Problem} error=${error} />`}
    <ul class="files">
      ${files.map((file) => html`<${File} key=${file.name} file=${file} previewed=${previewed.has(file)} onError=${setError} />`)}
    </ul>
    ${pictures.length > MOST_SHOWN && html`<p class="muted">Only the first ${MOST_SHOWN} pictures are previewed.</p>`}
    <${LeftOut} files=${filesLeftOut} number=${filesLeftOutCount} />
  <//>`;
}

function File({file, previewed, onError}) {
  const name = fileName(file.name);
  const download = () => blob(file.url).then((content) => save(content, file.name), onError);
  return html`<li>
    <div class="file-line">
      <span class="file-name"><bdi>${name}</bdi><span class="muted">${bytes(file.bytes)}</span></span>
      <button type="button" aria-label=${`Download ${name}`} onClick=${download}>Download</button>
    </div>
    ${previewed && html`<${Preview} file=${file} name=${name} />`}
  </li>`;
}

/** A picture is read once it is on the page. */
function Preview({file, name}) {
  const {value, error, reload} = useLoaded(() => picture(file), [file.url, file.sha256]);
  if (value?.problem) return html`<p class="muted">This picture ${value.problem}.</p>`;
  if (value) return html`<${Picture} content=${value.content} name=${name} />`;
  return error && html`<p class="muted">The preview could not be loaded. <button type="button" class="as-link" onClick=${reload}>Try again</button></p>`;
}

/** @param {{images: any[], number: number}} props `number`: how many it showed; only those that came while one looked are here */
export function Images({images, number}) {
  if (!images?.length && !number) return null;
  if (!images?.length)
    return html`<${Panel} title="Pictures">
      <p>
        ${plural(number, 'picture was', 'pictures were')} sent to the client and not kept. To keep pictures, save them to${' '}
        <code>/workspace/out</code>.
      </p>
    <//>`;
  return html`<${Panel} title="Pictures">
    <div class="images"><${Pictures} images=${images} /></div>
  <//>`;
}

/** Pictures as the program showed them, whose bytes are in its result. @param {{images: any[]}} props */
export const Pictures = ({images}) => images.map((image, index) => html`<${Shown} key=${index} image=${image} index=${index} />`);

function Shown({image, index}) {
  const name = `Picture ${index + 1}`;
  const known = useMemo(() => decoded(image), [image]);
  if (!known) return html`<p class="muted">${name} cannot be shown.</p>`;
  const {content} = known;
  const problem = known.problem || (index < MOST_SHOWN ? '' : 'is not previewed');
  if (!problem) return html`<${Picture} content=${content} name=${name} />`;
  const download = () => save(content, `picture-${index + 1}.${content.type.replace('image/', '')}`);
  return html`<p class="muted">${name} ${problem}. <button type="button" class="as-link" aria-label=${`Download ${name}`} onClick=${download}>Download</button></p>`;
}

/** @param {{content: Blob, name: string}} props */
function Picture({content, name}) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(content);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [content]);
  return url && html`<img class="picture" src=${url} alt=${name} />`;
}
