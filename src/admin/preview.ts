import type {Knex} from 'knex';
import type {RenderJob} from '../render/in-worker.ts';
import {chooseVariant} from '../render/locale.ts';
import type {RenderResult} from '../render/render.ts';
import {findVersion, listVariants, type Template} from '../store/templates.ts';
import type {Workspace} from '../store/workspaces.ts';

export type PreviewInput = {
	readonly workspace: Pick<Workspace, 'name' | 'locale' | 'timezone'>;
	readonly template: Template;
	/** Null: the newest. */
	readonly version: number | null;
	/** Null: the version's sample. */
	readonly data: Readonly<Record<string, unknown>> | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	/** `renderInWorker`, or after it. */
	readonly render: (job: RenderJob) => Promise<RenderResult>;
};

/** A version as a mail to nobody would be. Undefined: the template has no such version. */
export async function previewTemplate(
	reader: Knex,
	{workspace, template, version, data, locale, timezone, render}: PreviewInput,
): Promise<RenderResult | undefined> {
	const number = version ?? template.latest_version;
	const found = number === null ? undefined : await findVersion(reader, template.row_id, number);
	const variants = found ? await listVariants(reader, found.id) : [];
	const variant = chooseVariant(variants, locale ?? workspace.locale ?? 'en', workspace.locale);
	if (!found || !variant) {
		return undefined;
	}
	const {subject, html, text} = variant;
	return await render({
		variant: {id: found.id, subject, html, text},
		input: {
			data: data ?? JSON.parse(found.sample ?? '{}'),
			locale: locale ?? workspace.locale ?? 'en',
			timezone: timezone ?? workspace.timezone ?? 'UTC',
			recipient: {email: 'recipient@example.com'},
			unsubscribe_url: 'https://example.com/unsubscribe',
			workspace: {name: workspace.name},
			message: {id: 'msg_00000000000000000000000000'},
		},
	});
}
