import {variantSource} from '../admin/variants.ts';
import {apiTime} from '../mail/time.ts';
import type {Template, TemplateVariant, TemplateVersion} from '../store/templates.ts';

export function templateView(row: Template) {
	return {
		id: row.id,
		name: row.name,
		latest_version: row.latest_version,
		created_at: apiTime(row.created_at),
		updated_at: apiTime(row.updated_at),
	};
}

/** An item of the list of versions: without the sources. */
export function listedVersionView(
	{template_id, version, created_at}: TemplateVersion,
	variants: ReadonlyArray<Pick<TemplateVariant, 'locale' | 'subject'>>,
) {
	return {
		template_id,
		version,
		created_at: apiTime(created_at),
		variants: variants.map(({locale, subject}) => ({locale, subject})),
	};
}

export function versionView(
	{template_id, version, created_at, sample}: TemplateVersion,
	variants: readonly TemplateVariant[],
) {
	return {
		template_id,
		version,
		created_at: apiTime(created_at),
		variants: variants.map(variant => ({...variantSource(variant), text: variant.text_source})),
		sample: sample === null ? null : JSON.parse(sample),
	};
}
