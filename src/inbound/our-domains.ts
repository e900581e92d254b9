/** The domains at which mail is taken. */
export type OurDomains = {
	readonly has: (domain: string) => Promise<boolean>;
	/** Domains were added or removed. */
	readonly forget: () => void;
};

/**
 * @param fixed those of the settings
 * @param read those of the store; asked when they are needed first, and again after `forget`
 */
export function createOurDomains(fixed: readonly string[], read: () => Promise<readonly string[]>): OurDomains {
	const always = new Set(fixed.map(domain => domain.toLowerCase()));
	let known: Promise<ReadonlySet<string>> | null = null;
	return {
		async has(domain) {
			if (always.has(domain)) {
				return true;
			}
			known ??= read().then(domains => new Set(domains));
			const asked = known;
			try {
				return (await asked).has(domain);
			} catch (error) {
				known = known === asked ? null : known;
				throw error;
			}
		},
		forget() {
			known = null;
		},
	};
}
