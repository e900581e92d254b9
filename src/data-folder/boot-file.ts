import {readFileSync, renameSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {isId} from '../mail/ids.ts';

const fileName = 'boot';

/** The boot id of the last daemon on this data folder that claimed mail; null: none has, or the file cannot be read. */
export function readBoot(dataDir: string): string | null {
	try {
		const boot = readFileSync(join(dataDir, fileName), 'utf8').trim();
		return isId('req', boot) ? boot : null;
	} catch {
		// Without it the claims of a dead daemon end after its silence, as those of another machine's.
		return null;
	}
}

/** Replaces the file as a whole: a crash leaves the old one or the new one. */
export function writeBoot(dataDir: string, boot: string): void {
	const draft = join(dataDir, `${fileName}.new`);
	writeFileSync(draft, `${boot}\n`, {mode: 0o600});
	renameSync(draft, join(dataDir, fileName));
}
