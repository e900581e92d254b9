import {execFileSync} from 'node:child_process';
import path from 'node:path';
import type {ReadMail, ReadReport} from './figures.ts';

type Explained = Omit<ReadMail, 'reports'> & {
	readonly file: string;
	readonly reports: ReadonlyArray<
		Omit<ReadReport, 'originalRecipient'> & {readonly original_recipient: string | null}
	>;
};

const program = path.resolve(import.meta.dirname, '../../../bin/mailctl.js');

/** Every file of a folder as `mailctl bounce explain --json` reads it, in one run; by the file's name. */
export function explainFolder(folder: string): Map<string, ReadMail> {
	const output = execFileSync(process.execPath, [program, 'bounce', 'explain', '--json', folder], {
		maxBuffer: 1 << 30,
		stdio: ['ignore', 'pipe', 'inherit'],
	});
	const files = JSON.parse(output.toString('utf8')) as Explained[];
	return new Map(
		files.map(({file, kind, reports}) => [
			path.basename(file),
			{
				kind,
				reports: reports.map(({original_recipient, ...report}) => ({
					...report,
					originalRecipient: original_recipient,
				})),
			},
		]),
	);
}
