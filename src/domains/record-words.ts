import type {CheckedRecord} from './check-records.ts';
import type {DomainRecord} from './domain-records.ts';

// What command line and dashboard say of records in the same words.

const purposes: Readonly<Record<DomainRecord['purpose'], string>> = {
	ownership: 'ownership',
	dkim: 'DKIM',
	return_path: 'return path',
	spf: 'SPF of return path',
	dmarc: 'DMARC',
};

export const keyAlgorithms = {'rsa-sha256': 'RSA', 'ed25519-sha256': 'Ed25519'} as const;

/** What a record is for: `DKIM RSA, new key`. */
export function purposeOf({purpose, required, key}: DomainRecord): string {
	const optional = required ? '' : ', optional';
	if (key === null) {
		return `${purposes[purpose]}${optional}`;
	}
	const name = `DKIM ${keyAlgorithms[key.algorithm]}`;
	switch (key.state) {
		case 'active':
			return `${name}${optional}`;
		case 'pending':
			return `${name}, new key`;
		case 'retired':
			return `${name} until ${key.keep_until?.slice(0, 10)}`;
	}
}

/** Whether no key that should sign has its record, so that receivers take the domain's mail for unsigned. */
export function isUnsigned(records: readonly CheckedRecord[]): boolean {
	return !records.some(({purpose, key, ok}) => purpose === 'dkim' && key?.state === 'active' && ok);
}

/** Records that would verify the domain and that DNS does not show; of two one is enough. */
export function openProofs<Row extends DomainRecord & Partial<CheckedRecord>>(records: readonly Row[]): Row[] {
	return records.filter(
		({purpose, required, ok}) => !ok && required && (purpose === 'ownership' || purpose === 'dkim'),
	);
}
