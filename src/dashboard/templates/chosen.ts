import type {Knex} from 'knex';
import {isTemplateId} from '../../mail/ids.ts';
import {
	findTemplate,
	findVersion,
	listVariants,
	type Template,
	type TemplateVariant,
	type TemplateVersion,
} from '../../store/templates.ts';
import {missing, type Visit} from '../route.ts';

// What the path and the query of a page name.

export const noTemplate = missing('There is no such template in this workspace.');

export async function chosenTemplate(
	reader: Knex,
	{workspace, params: {id = ''}}: Pick<Visit, 'workspace' | 'params'>,
): Promise<Template | undefined> {
	return isTemplateId(id) ? await findTemplate(reader, workspace.id, {id}) : undefined;
}

/** A saved version with its variants. */
export type Saved = {readonly version: TemplateVersion; readonly variants: readonly TemplateVariant[]};

/** `text`: a version's number; empty or null: the newest. Undefined: the template has no such version. */
export async function chosenVersion(reader: Knex, template: Template, text: string | null): Promise<Saved | undefined> {
	const number = text ? versionNumber(text) : template.latest_version;
	const version = number === null ? undefined : await findVersion(reader, template.row_id, number);
	return version && {version, variants: await listVariants(reader, version.id)};
}

export const versionNumber = (text: string): number | null => (/^[1-9]\d{0,8}$/.test(text) ? Number(text) : null);

/** How a variant is named: by its language, in queries the empty text for the default one. */
export const localeName = (locale: string | null): string => locale ?? 'default';

/** The variant that a query names; without a name the first. */
export function chosenVariant(
	variants: readonly TemplateVariant[],
	locale: string | null,
): TemplateVariant | undefined {
	return variants.find(variant => variant.locale === (locale === '' ? null : locale)) ?? variants[0];
}
