import type {Knex} from 'knex';
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
