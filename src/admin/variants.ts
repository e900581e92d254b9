import type {CompiledVariant, VariantSource} from '../render/compile.ts';
import type {TemplateVariant} from '../store/templates.ts';

/** What is stored of a variant: its source, and what was made of it. */
export function storedVariant(
	{locale, subject, mjml, html, text}: VariantSource,
	made: CompiledVariant,
): TemplateVariant {
	return {
		locale,
		subject,
		kind: mjml === undefined ? 'html' : 'mjml',
		source: mjml ?? html ?? '',
		text_source: text ?? null,
		html: made.html,
		text: made.text,
	};
}

/** What its author wrote. */
export function variantSource({locale, subject, kind, source, text_source: text}: TemplateVariant): VariantSource {
	return {locale, subject, [kind]: source, ...(text !== null && {text})};
}
