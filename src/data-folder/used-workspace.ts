import {renameSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {readGuarded} from '../kit/regular-file.ts';

const mostBytes = 16 * 1024;

/** Where `mailctl workspace use` writes what it chose: `{"workspace":"ws_…"}`. */
export function usedWorkspaceFile(dataDir: string): string {
	return join(dataDir, 'cli.json');
}

/** Id or name, whether it exists or not; null: none was chosen, or by nothing that we wrote. */
export function readUsedWorkspace(dataDir: string): string | null {
	try {
		const {workspace} = JSON.parse(readGuarded(usedWorkspaceFile(dataDir), mostBytes).content.toString());
		return typeof workspace === 'string' ? workspace : null;
	} catch {
		return null;
	}
}

/** Replaces the file as a whole. */
export function writeUsedWorkspace(dataDir: string, workspace: string): void {
	const draft = `${usedWorkspaceFile(dataDir)}.${process.pid}`;
	writeFileSync(draft, `${JSON.stringify({workspace})}\n`, {mode: 0o600});
	renameSync(draft, usedWorkspaceFile(dataDir));
}
