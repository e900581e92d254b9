import type {Knex} from 'knex';
import {chooseVariant} from '../render/locale.ts';
import {createRenderer, type RenderResult} from '../render/render.ts';
import {findVersion, listVariants, type Template} from '../store/templates.ts';
import type {Workspace} from '../store/workspaces.ts';

export type PreviewInput = {
	readonly workspace: Workspace;
	readonly template: Template;
	readonly data: Readonly<Record<string, unknown>>;
	readonly locale: string | null;
	readonly timezone: string | null;
};

/** The newest version as a mail to nobody would be. Undefined: the template has no version. */
export async function previewTemplate(
	reader: Knex,
	{workspace, template, data, locale, timezone}: PreviewInput,
): Promise<RenderResult | undefined> {
	const version =
		template.latest_version === null ? undefined : await findVersion(reader, template.id, template.latest_version);
	const variants = version ? await listVariants(reader, version.id) : [];
	const variant = chooseVariant(variants, locale ?? workspace.locale ?? 'en', workspace.locale);
	return (
		variant &&
		createRenderer().render(
			{id: template.id, ...variant},
			{
				data,
				locale: locale ?? workspace.locale ?? 'en',
				timezone: timezone ?? workspace.timezone ?? 'UTC',
				recipient: {email: 'recipient@example.com'},
				unsubscribe_url: 'https://example.com/unsubscribe',
				workspace: {name: workspace.name},
				message: {id: 'msg_00000000000000000000000000'},
			},
		)
	);
}
