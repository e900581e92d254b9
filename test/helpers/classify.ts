import {loadBounceRules} from '../../src/config/bounce-rules.ts';
import {createClassify} from '../../src/mail/classify-reply.ts';

/** By the shipped rules. */
export const bounceRules = loadBounceRules({bounceRulesFile: null});
export const classify = createClassify(bounceRules);
