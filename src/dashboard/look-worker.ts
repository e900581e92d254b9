import {processInputs} from '../compose/render/in-worker.ts';
import {readReport} from '../inbound/reports/read-report.ts';
import {toBuffer} from '../kit/text.ts';
import {createClassify} from '../mail/classify-reply.ts';
import type {Look, MailInspections} from './look.ts';
import {fileIn, seenMail} from './seen-mail.ts';

// The body of a thread that inspects one message and then exits, because the bytes are untrusted.

const inspections: {
	readonly [Kind in keyof MailInspections]: (input: MailInspections[Kind]['asked']) => MailInspections[Kind]['seen'];
} = {
	mail: ({raw}) => seenMail(toBuffer(raw)),
	file: ({raw, index}) => fileIn(toBuffer(raw), index),
	report: ({raw, rules}) => readReport(toBuffer(raw), createClassify(rules)),
};

const inspect = <Kind extends keyof MailInspections>({kind, asked}: Look<Kind>) => inspections[kind](asked);

await processInputs(input => inspect(input as Look<keyof MailInspections>));
