import type {Knex} from 'knex';
import {saveTemplate} from '../admin/templates.ts';
import {createWorkspace} from '../admin/workspaces.ts';
import type {ActTools} from '../mail/operator.ts';
import type {FilledWorkspace} from '../store/filling.ts';
import {listSenders} from '../store/senders.ts';
import {findVersion, type TemplateVariant} from '../store/templates.ts';
import {findWorkspaceByName} from '../store/workspaces.ts';
import {benchSender} from './throw-away.ts';

/** As many as a service of some size has. */
const count = 200;

/** Makes, or finds, the workspaces that traffic is shared out among where none is named. Their ids. */
export async function makeWorkspaces(trx: Knex.Transaction, tools: ActTools): Promise<string[]> {
	const ids: string[] = [];
	for (let number = 1; number <= count; number++) {
		const name = `bench-${String(number).padStart(3, '0')}`;
		const workspace = (await findWorkspaceByName(trx, name)) ?? (await createWorkspace(trx, tools, {name}));
		ids.push(workspace?.id as string);
	}
	return ids;
}

/** What messages of a workspace are made of: its first sender, and a template of ours. */
export async function prepareWorkspace(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
	variant: TemplateVariant,
): Promise<FilledWorkspace> {
	const [sender] = await listSenders(trx, workspaceId);
	const template = {workspaceId, name: 'bench-receipt', variants: [variant], sample: null};
	const {id: templateId, version} = await saveTemplate(trx, tools, template);
	const {id: versionId} = (await findVersion(trx, templateId, version)) as {id: string};
	return {id: workspaceId, sender: sender?.address ?? benchSender, templateId, versionId};
}
