import type {Knex} from 'knex';
import {CliError} from './fault.ts';
import type {CliCommand} from './program.ts';
import type {Session} from './session.ts';
import type {Noun} from './terminal-text.ts';

/** Adds `list`, which shows rows of the workspace. The noun is a function if it depends on the time or on secrets. */
export function listVerb<Row>(
	noun: CliCommand,
	about: string,
	shows: Noun<Row> | ((session: Session) => Noun<Row> | Promise<Noun<Row>>),
	read: (reader: Knex, workspaceId: string) => Promise<readonly Row[]>,
): void {
	noun.verb('list', about)
		.sample(`mailctl ${noun.name()} list`)
		.does(async session => {
			const {reader, workspaceId} = await session.inWorkspace();
			session.list(typeof shows === 'function' ? await shows(session) : shows, await read(reader, workspaceId));
		});
}

/**
 * Finds an object of the installation, or of the workspace of `--workspace`, by the unique prefix of its id or by its
 * target. Throws bad data (65).
 */
export async function findNamed<Row extends {readonly id: string; readonly target?: string}>(
	session: Session,
	noun: string,
	list: (reader: Knex, workspaceId: string | null) => Promise<readonly Row[]>,
	text: string,
): Promise<Row> {
	const rows = await list(await session.reader(), (await session.chosenWorkspace())?.id ?? null);
	const [row, ...others] = rows.filter(({id, target}) => target === text || (text !== '' && id.startsWith(text)));
	if (row === undefined || others.length > 0) {
		const wrong = row === undefined ? `there is no ${noun} ${text}` : `${text} is ambiguous`;
		throw new CliError('data', wrong, `see mailctl ${noun} list`);
	}
	return row;
}
