import type {Command} from 'commander';
import {documentVersion} from '../../declared/document.ts';
import {declared, readState} from '../../declared/state.ts';
import {storeTime} from '../../kit/time.ts';
import {listWorkspaces} from '../../store/workspaces.ts';
import {example} from '../program.ts';
import {action} from '../session.ts';

/** Writes the document of docs/guide/declared.md, every workspace unless one is named, without any secret. */
export function exportCommand(command: Command): void {
	example(command, 'mailctl export > mailctl.yaml').action(
		action(async session => {
			const reader = await session.reader();
			const only = await session.chosenWorkspace();
			const rows = only ? [only] : await listWorkspaces(reader);
			const now = storeTime(session.tools.clock.now());
			const workspaces = [];
			for (const row of rows.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
				workspaces.push(declared(await readState(reader, row, now)));
			}
			const {stringify} = await import('yaml');
			const document = {version: documentVersion, workspaces};
			session.show(document, () => [stringify(document, {lineWidth: 0}).trimEnd()]);
		}),
	);
}
