import type {Knex} from 'knex';
import type {ActTools} from '../mail/operator.ts';
import {findTemplate, type TemplateVariant} from '../store/templates.ts';
import {saveTemplate} from './templates.ts';

/** The template of mail that programs submit by SMTP, so that each message has one. Its content is never sent. */
const name = 'submission';
const id = 'tpl_submission';

/** Whether the program made the template: lists say so, and `template pull` leaves it out. */
export function isBuiltIn(template: {readonly id: string}): boolean {
	return template.id === id;
}

const html = '<p>Mail that was submitted by SMTP is sent as its program wrote it. This template stands for it.</p>';
const variant: TemplateVariant = {
	locale: null,
	subject: 'Submitted by SMTP',
	kind: 'html',
	source: html,
	text_source: null,
	html,
	text: null,
};

/** Its id; undefined: the workspace has no such template yet. One of that name that the workspace made itself will do. */
export async function findSubmissionTemplate(reader: Knex, workspaceId: string): Promise<string | undefined> {
	const template = (await findTemplate(reader, workspaceId, {id})) ?? (await findTemplate(reader, workspaceId, {name}));
	return template && template.latest_version !== null ? template.id : undefined;
}

export async function makeSubmissionTemplate(
	trx: Knex.Transaction,
	tools: ActTools,
	workspaceId: string,
): Promise<string> {
	const found = await findSubmissionTemplate(trx, workspaceId);
	if (found !== undefined) {
		return found;
	}
	const isTaken = (await findTemplate(trx, workspaceId, {id})) !== undefined;
	const content = {variants: [variant], sample: null};
	return (await saveTemplate(trx, tools, {workspaceId, id: isTaken ? null : id, name, ...content})).id;
}
