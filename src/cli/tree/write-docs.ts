import {writeFileSync} from 'node:fs';
import {mailctl} from '../commands.ts';
import {cliPage, manPage} from './tree.ts';

const program = await mailctl();
writeFileSync('docs/reference/cli.md', cliPage(program));
writeFileSync('docs/reference/mailctl.1', manPage(program));
