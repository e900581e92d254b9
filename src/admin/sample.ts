import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';
import type {Knex} from 'knex';
import {removeDomain, sampleDomain} from '../domains/domains.ts';
import {removeSender} from '../domains/senders.ts';
import type {ActTools} from '../mail/operator.ts';
import {findDomain} from '../store/domains.ts';
import {findTemplate} from '../store/templates.ts';
import type {ReadyTemplate} from './layouts.ts';
import {removeTemplate} from './templates.ts';

/** What the first start makes for a first mail, in addition to workspace and keys. */
export const sampleSender = `hello@${sampleDomain}`;
export const sampleTemplate = 'sample';

/**
 * `config/sample-template` as it is stored, made by write-sample.ts: a first start need not load MJML to compile it.
 */
export const sampleFile = fileURLToPath(new URL('../../../config/sample-template.json', import.meta.url));

/** The template that a first mail is made of. */
export async function readSample(): Promise<ReadyTemplate> {
	return JSON.parse(await readFile(sampleFile, 'utf8'));
}

/** What was removed of the sample. A template that has a second version is the operator's own by now, and stays. */
type RemovedSample = {readonly sender: boolean; readonly domain: boolean; readonly template: boolean};

/**
 * Removes the sample of a workspace: its sender, their domain if no other sender uses it, its template if it is
 * unchanged.
 */
export async function removeSample(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
): Promise<RemovedSample> {
	const sender = await removeSender(trx, tools, workspaceId, {addressKey: sampleSender});
	const domain = await findDomain(trx, workspaceId, sampleDomain);
	const template = await findTemplate(trx, workspaceId, {name: sampleTemplate});
	return {
		sender,
		domain: domain !== undefined && (await removeDomain(trx, tools, domain)) === undefined,
		template: template?.latest_version === 1 && (await removeTemplate(trx, tools, workspaceId, template.id)),
	};
}
