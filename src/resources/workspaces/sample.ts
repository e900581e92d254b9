import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';
import type {Knex} from 'knex';
import {packageFile} from '../../kit/program-files.ts';
import {storeTime} from '../../kit/time.ts';
import type {ActTools} from '../../mail/operator.ts';
import {bumpGeneration} from '../../store/changes.ts';
import {recordAct} from '../audit/store.ts';
import {removeDomain, sampleDomain} from '../domains/domains.ts';
import {removeSender} from '../domains/senders.ts';
import {findDomain} from '../domains/store.ts';
import type {ReadyTemplate} from '../templates/layouts.ts';
import {removeTemplate} from '../templates/rules.ts';
import {deleteTemplate, findTemplate} from '../templates/store.ts';

/** The sender and template that the first start creates, so that a first message can be sent. */
export const sampleSender = `hello@${sampleDomain}`;
export const sampleTemplate = 'sample';

/**
 * The compiled form of `config/sample-template`, as it is stored. write-sample.ts creates this file, so that the first
 * start need not load MJML.
 */
export const sampleFile = fileURLToPath(packageFile('config/sample-template.json'));

/** Returns the compiled sample template. */
export async function readSample(): Promise<ReadyTemplate> {
	return JSON.parse(await readFile(sampleFile, 'utf8'));
}

/**
 * Which parts of the sample were removed. A template with a second version is retained: the operator has changed it.
 */
type RemovedSample = {readonly sender: boolean; readonly domain: boolean; readonly template: boolean};

/**
 * Removes the sample of a workspace: its sender, the domain if no other sender uses it, and the template if it is
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
	const isUnchanged = template?.latest_version === 1;
	if (isUnchanged) {
		await deleteTemplate(trx, workspaceId, template.id, storeTime(tools.clock.now()));
		await recordAct(trx, tools, {action: removeTemplate.audit, workspaceId, target: template.id});
		await bumpGeneration(trx);
	}
	return {
		sender,
		// `removeDomain` returns the senders that still use the domain, or `undefined` once it is removed.
		domain: domain !== undefined && (await removeDomain(trx, tools, domain)) === undefined,
		template: isUnchanged,
	};
}
