import {writeFileSync} from 'node:fs';
import {readTemplates} from '../templates/template-folder.ts';
import {sampleFile} from './sample.ts';

const read = await readTemplates('config/sample-template');
if (!read.ok) {
	throw new Error(read.problems.join('\n'));
}
writeFileSync(sampleFile, `${JSON.stringify(read.change.templates[0], null, '\t')}\n`);
