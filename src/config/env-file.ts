import {existsSync} from 'node:fs';
import {parse} from 'dotenv';
import {readGuarded} from '../mail/regular-file.ts';

export type EnvFile = {
	readonly values: Readonly<Record<string, string>>;
	/** Lines that name a setting of ours and were not understood. */
	readonly problems: readonly string[];
	/** Group or others may read it. */
	readonly exposed: boolean;
};

/** Reads an environment file (dotenv's format) and changes nothing; undefined: there is none. Throws what the system says. */
export function readEnvFile(path: string): EnvFile | undefined {
	if (!existsSync(path)) {
		return undefined;
	}

	const {content, mode} = readGuarded(path);
	const text = content.toString();
	const values = parse(text);
	const problems: string[] = [];
	for (const [index, line] of text.split(/\r\n?|\n/).entries()) {
		const name = /^\s*(?:export\s+)?(MAILCTL_\w*)/.exec(line)?.[1];
		if (name && !Object.hasOwn(values, name)) {
			problems.push(`line ${index + 1}: ${name} is not followed by =value`);
		}
	}

	return {values, problems, exposed: (mode & 0o044) !== 0};
}
