import type {VariantSource} from './compile.ts';

/**
 * The files of the folder that `readTemplateFolder` reads as these variants and this sample, by name. Their texts are
 * the authors' own but for template.json, which is written anew.
 */
export function folderFiles(variants: readonly VariantSource[], sample: string | null): Map<string, string> {
	const files = new Map<string, string>();
	const usual = variants.find(({locale}) => locale === null)?.subject;
	const subjects: Record<string, string> = {};
	for (const {locale, subject, mjml, html, text} of variants) {
		const name = locale === null ? 'body' : `body.${locale}`;
		if (locale !== null && subject !== usual) {
			subjects[locale] = subject;
		}
		files.set(mjml === undefined ? `${name}.html` : `${name}.mjml`, mjml ?? html ?? '');
		if (text !== undefined) {
			files.set(`${name}.txt`, text);
		}
	}
	const settings = {subject: usual, ...(Object.keys(subjects).length > 0 && {subjects})};
	files.set('template.json', `${JSON.stringify(settings, undefined, '\t')}\n`);
	if (sample !== null) {
		files.set('sample.json', sample);
	}
	return files;
}
