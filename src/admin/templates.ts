import {createHash} from 'node:crypto';
import type {Knex} from 'knex';
import {storeTime} from '../mail/time.ts';
import {bumpGeneration} from '../store/changes.ts';
import {
	deleteTemplate,
	findTemplate,
	findVersion,
	insertTemplate,
	insertVersion,
	type Template,
	type TemplateVariant,
} from '../store/templates.ts';
import type {Tools} from './tools.ts';

/** Undefined: the name is taken. */
export async function createTemplate(
	trx: Knex.Transaction,
	{clock, newId}: Tools,
	workspaceId: string,
	name: string,
): Promise<Template | undefined> {
	const now = storeTime(clock.now());
	const template: Template = {
		id: newId('tpl'),
		workspace_id: workspaceId,
		name,
		latest_version: null,
		created_at: now,
		updated_at: now,
		deleted_at: null,
	};
	const created = await insertTemplate(trx, template);
	await bumpGeneration(trx);
	return created ? template : undefined;
}

/** What a push made of one template. */
export type Saved = {
	readonly id: string;
	readonly name: string;
	readonly version: number;
	/** False: the newest version has the same source already. */
	readonly changed: boolean;
};

export type VersionInput = {
	readonly workspaceId: string;
	readonly name: string;
	/** Compiled; the default variant first. */
	readonly variants: readonly TemplateVariant[];
};

/** Saves a version of the template of this name, which is made if it is missing. The same source again makes no version. */
export async function saveVersion(
	trx: Knex.Transaction,
	tools: Tools,
	{workspaceId, name, variants}: VersionInput,
): Promise<Saved> {
	const template =
		(await findTemplate(trx, workspaceId, {name})) ?? (await createTemplate(trx, tools, workspaceId, name));
	if (!template) {
		throw new Error(`The template ${name} was made by somebody else meanwhile: try again.`);
	}
	const fingerprint = fingerprintOf(variants);
	const latest = template.latest_version ?? 0;
	if (latest > 0 && (await findVersion(trx, template.id, latest))?.fingerprint === fingerprint) {
		return {id: template.id, name, version: latest, changed: false};
	}
	const version = {
		id: tools.newId('tpv'),
		template_id: template.id,
		version: latest + 1,
		fingerprint,
		created_at: storeTime(tools.clock.now()),
	};
	if (!(await insertVersion(trx, version, variants))) {
		throw new Error(`The template ${name} was changed by somebody else meanwhile: try again.`);
	}
	await bumpGeneration(trx);
	return {id: template.id, name, version: version.version, changed: true};
}

/** Messages sent with it keep their version. False: there is no such template. */
export async function removeTemplate(
	trx: Knex.Transaction,
	{clock}: Tools,
	workspaceId: string,
	id: string,
): Promise<boolean> {
	const removed = await deleteTemplate(trx, workspaceId, id, storeTime(clock.now()));
	await bumpGeneration(trx);
	return removed;
}

/** SHA-256 of what the author wrote, whatever the order of variants and the compiler's version. */
export function fingerprintOf(variants: readonly TemplateVariant[]): string {
	const sources = variants
		.map(({locale, subject, kind, source, text_source: text}) => JSON.stringify([locale, subject, kind, source, text]))
		.sort();
	return createHash('sha256').update(JSON.stringify(sources)).digest('hex');
}
