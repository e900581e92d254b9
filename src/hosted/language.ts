import type {Language, Texts} from './texts/wording.ts';
import {de, en, es, fr} from './texts/wording.ts';

/** The sources of a page's language, in order. The first language that has texts is used. */
type LanguageSources = {
	/** The languages of the message and of the contact. */
	readonly preferred: ReadonlyArray<string | null | undefined>;
	readonly acceptLanguage: string | undefined;
	/** The language of the workspace. */
	readonly fallback: string | null | undefined;
};

export function chooseTexts({preferred, acceptLanguage, fallback}: LanguageSources): Texts {
	for (const tag of [...preferred, ...acceptedTags(acceptLanguage ?? ''), fallback, 'en']) {
		const language = tag?.toLowerCase().split('-')[0] ?? '';
		if (Object.hasOwn(texts, language)) {
			return texts[language as Language];
		}
	}
	return texts.en;
}

const maxTags = 32;

/** Returns the acceptable tags of an Accept-Language field, most preferred first (RFC 9110 §12.5.4). */
export function acceptedTags(field: string): string[] {
	return field
		.split(',', maxTags)
		.map(part => {
			const [, tag, weight = '1'] =
				/^\s*([a-z]{1,8}(?:-[a-z0-9]{1,8})*)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/i.exec(part) ?? [];
			return {tag, weight: Number(weight)};
		})
		.filter((range): range is {tag: string; weight: number} => range.tag !== undefined && range.weight > 0)
		.sort((a, b) => b.weight - a.weight)
		.map(({tag}) => tag);
}

/** The texts of the hosted pages in all their languages. */
export const texts: Readonly<Record<Language, Texts>> = {en, de, fr, es};
