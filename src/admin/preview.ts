import type {Knex} from 'knex';
import type {RenderJob} from '../render/in-worker.ts';
import {chooseVariant, mailLocale} from '../render/locale.ts';
import type {RenderResult} from '../render/render.ts';
import {
	findVersion,
	listVariants,
	type Template,
	type TemplateVariant,
	type TemplateVersion,
} from '../store/templates.ts';
import type {Workspace} from '../store/workspaces.ts';

/** With what a variant is shown: null is what the workspace or the version has. */
type Terms = {
	readonly workspace: Pick<Workspace, 'name' | 'locale' | 'timezone'>;
	/** The variables as JSON; null: the version's sample. */
	readonly data: string | null;
	readonly locale: string | null;
	readonly timezone: string | null;
	/** `renderInWorker`, or after it. */
	readonly render: (job: RenderJob) => Promise<RenderResult>;
};

export type PreviewInput = Terms & {
	readonly template: Template;
	/** Null: the newest. */
	readonly version: number | null;
};

/** Renders a version with sample data. Undefined: the template has no such version. */
export async function previewTemplate(
	reader: Knex,
	{template, version, ...terms}: PreviewInput,
): Promise<RenderResult | undefined> {
	const {workspace, locale} = terms;
	const number = version ?? template.latest_version;
	const found = number === null ? undefined : await findVersion(reader, template.row_id, number);
	const variants = found ? await listVariants(reader, found.id) : [];
	const variant = chooseVariant(variants, locale ?? workspace.locale ?? 'en', workspace.locale);
	return found && variant && (await previewVariant(found, variant, terms));
}

/** Renders one variant with sample data. */
export async function previewVariant(
	{id, sample}: Pick<TemplateVersion, 'id' | 'sample'>,
	{subject, html, text, locale: written}: Pick<TemplateVariant, 'subject' | 'html' | 'text' | 'locale'>,
	{workspace, data, locale, timezone, render}: Terms,
): Promise<RenderResult> {
	const place = locale ?? workspace.locale ?? 'en';
	return await render({
		variant: {id, subject, html, text},
		input: {
			data: data ?? sample ?? '{}',
			locale: place,
			timezone: timezone ?? workspace.timezone ?? 'UTC',
			recipient: {email: 'recipient@example.com'},
			unsubscribe_url: 'https://example.com/unsubscribe',
			workspace: {name: workspace.name},
			message: {id: 'msg_00000000000000000000000000', locale: mailLocale(written, place)},
		},
	});
}
