import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';
import {packageFile} from '../../kit/program-files.ts';
import {Type} from '../../mail/type.ts';
import {removeDomain, sampleDomain} from '../domains/rules.ts';
import {removeSender} from '../domains/senders-rules.ts';
import {findDomain, findSender, listDomainSenders} from '../domains/store.ts';
import {operation, performIn} from '../operation.ts';
import type {ReadyTemplate} from '../templates/layouts.ts';
import {removeTemplate} from '../templates/rules.ts';
import {findTemplate} from '../templates/store.ts';

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

/** Which parts of the sample were removed. A template with a second version is kept, since it has been changed. */
type RemovedSample = {readonly sender: boolean; readonly domain: boolean; readonly template: boolean};

/**
 * Removes the sample of a workspace: its sender, the domain if no other sender uses it, and the template if it is
 * unchanged.
 */
export const removeSample = operation({
	role: 'admin',
	name: 'sample remove',
	without: {
		api: 'only the first start creates a sample',
		dashboard: 'people remove its parts on their pages',
		apply: 'a file describes state, not actions',
	},
	input: Type.Object({}),
	async run(context): Promise<RemovedSample> {
		const {trx, workspaceId} = context;
		const sender = await findSender(trx, workspaceId, sampleSender);
		if (sender) {
			await performIn(removeSender, context, {id: sender.id});
		}
		const domain = await findDomain(trx, workspaceId, sampleDomain);
		const isUnused = domain !== undefined && (await listDomainSenders(trx, domain.id)).length === 0;
		if (isUnused) {
			await performIn(removeDomain, context, {id: domain.id});
		}
		const template = await findTemplate(trx, workspaceId, {name: sampleTemplate});
		const isUnchanged = template?.latest_version === 1;
		if (isUnchanged) {
			await performIn(removeTemplate, context, {id: template.id});
		}
		return {sender: sender !== undefined, domain: isUnused, template: isUnchanged};
	},
	// Each removal is recorded by itself.
	audit: 'domain.removed',
	entry: () => [],
});
