const longestAddress = 320;

// A local part that is quoted may hold anything; a plain one ends at what encloses addresses in texts.
const address =
	/(?:"[^"\r\n@<>]{1,64}"|[^\s<>()[\]",;:@\\\p{Cc}]{1,128})@(?:\[[0-9a-fA-F.:]{3,60}\]|[^\s<>()[\]",;:@\\'!?/=|`\p{Cc}]{1,255})/gu;

/** Every address in a text, as it is written there, at most `most` of them: `Neko <neko@example.org>`, `rfc822;neko@example.org`. */
export function addressesIn(text: string, most = 20): string[] {
	const found: string[] = [];
	for (const [match] of text.matchAll(address)) {
		const plain = tidy(match);
		if (plain !== null) {
			found.push(plain);
			if (found.length >= most) {
				break;
			}
		}
	}
	return found;
}

/** The first address in a text, null: there is none. */
export function addressIn(text: string): string | null {
	return addressesIn(text, 1)[0] ?? null;
}

/** Whether two spellings mean the same mailbox as far as anybody can tell. */
export function sameAddress(one: string, other: string): boolean {
	return one.toLowerCase() === other.toLowerCase();
}

/** Addresses of a text that are not the reader's own. */
export function strangersIn(addresses: readonly string[], own: readonly string[]): string[] {
	return addresses.filter(one => !own.some(other => sameAddress(one, other)));
}

function tidy(match: string): string | null {
	const plain = match.replace(/^(?:mailto:|['`*_]+)/i, '').replace(/[.'*_-]+$/, '');
	return plain.length <= longestAddress && /^.+@.*[^\d.].*$/u.test(plain) ? plain : null;
}
