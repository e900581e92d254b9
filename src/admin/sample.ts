import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';
import type {ReadyTemplate} from './template-folder.ts';

/** `config/sample-template` as it is stored, made by write-sample.ts: a first start need not load MJML to compile it. */
export const sampleFile = fileURLToPath(new URL('../../../config/sample-template.json', import.meta.url));

/** The template that a first mail is made of. */
export async function readSample(): Promise<ReadyTemplate> {
	return JSON.parse(await readFile(sampleFile, 'utf8'));
}
