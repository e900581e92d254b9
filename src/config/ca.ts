import {readFileSync} from 'node:fs';
import type {Settings} from './settings.ts';

/** The certificate authorities of MAILCTL_CA_FILE (PEM), trusted besides the public ones; null: none. */
export function extraCa({caFile}: Pick<Settings, 'caFile'>): string | null {
	return caFile === null ? null : readFileSync(caFile, 'utf8');
}
