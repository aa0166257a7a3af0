# One file of a dataset: the graph of a Coq source file, in format version 15.
# docs/formats/coq-dataset.md explains it. Only ordinals and types matter for the encoding; the
# names are those that users of such datasets know.
@0xd3a1f2c65b8e9047;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("millrace::schema");

struct IntP { value @0 :UInt64; }
struct FloatP { value @0 :Float64; }

struct DataVersion {
  major @0 :Int64;  # 15; other numbers are refused
}

enum EdgeClassification {
  contextElem @0;
  contextSubject @1;
  contextDefType @2;
  contextDefTerm @3;
  constType @4;
  constUndef @5;
  constDef @6;
  constOpaqueDef @7;
  constPrimitive @8;
  indType @9;
  indConstruct @10;
  indProjection @11;
  projTerm @12;
  constructTerm @13;
  castTerm @14;
  castType @15;
  prodType @16;
  prodTerm @17;
  lambdaType @18;
  lambdaTerm @19;
  letInDef @20;
  letInType @21;
  letInTerm @22;
  appFun @23;
  appArg @24;
  caseTerm @25;
  caseReturn @26;
  caseBranchPointer @27;
  caseInd @28;
  cBConstruct @29;
  cBTerm @30;
  fixMutual @31;
  fixReturn @32;
  fixFunType @33;
  fixFunTerm @34;
  coFixMutual @35;
  coFixReturn @36;
  coFixFunType @37;
  coFixFunTerm @38;
  relPointer @39;
  evarSubstPointer @40;
  evarSubstTerm @41;
  evarSubstTarget @42;
  evarSubject @43;
}

# A reference to a node of the file dependencies[depIndex].
struct Node {
  depIndex @0 :UInt16;
  nodeIndex @1 :UInt32;
}

struct Argument {
  union {
    unresolvable @0 :Void;
    term :group {
      depIndex @1 :UInt16;
      nodeIndex @2 :UInt32;
    }
  }
}

struct ProofState {
  root :group {
    depIndex @0 :UInt16;
    nodeIndex @1 :UInt32;
  }
  context @2 :List(Node);
  contextNames @3 :List(Text);
  contextText @4 :List(Text);
  conclusionText @5 :Text;
  text @6 :Text;
  id @7 :UInt32;
}

struct Outcome {
  before @0 :ProofState;
  after @1 :List(ProofState);
  term :group {
    depIndex @2 :UInt16;
    nodeIndex @3 :UInt32;
  }
  termText @4 :Text;
  tacticArguments @5 :List(Argument);
}

struct Tactic {
  ident @0 :Int64;
  text @1 :Text;
  baseText @2 :Text;
  intermText @3 :Text;
  exact @4 :Bool;
  textNonAnonymous @5 :Text;
}

struct ProofStep {
  tactic :union {
    unknown @0 :Void;
    known @1 :Tactic;
  }
  outcomes @2 :List(Outcome);
}

struct Definition {
  name @0 :Text;
  previous @1 :UInt32;                # the number of nodes: there is no previous definition
  externalPrevious @2 :List(UInt16);  # indexes into dependencies
  status :union {
    original @3 :Void;
    discharged @4 :UInt32;
    substituted :group {
      depIndex @5 :UInt16;
      nodeIndex @6 :UInt32;
    }
  }
  union {
    inductive @7 :UInt32;             # the cluster's representative
    constructor @8 :UInt32;
    projection @9 :UInt32;
    manualConstant @10 :Void;
    tacticalConstant @11 :List(ProofStep);
    manualSectionConstant @12 :Void;
    tacticalSectionConstant @13 :List(ProofStep);
  }
  typeText @14 :Text;
  termText @15 :Text;
}

struct Graph {
  nodes @0 :List(Node);
  edges @1 :List(EdgeTarget);

  struct EdgeTarget {
    label @0 :EdgeClassification;
    target :group {
      depIndex @1 :UInt16;
      nodeIndex @2 :UInt32;
    }
  }

  struct Node {
    label :union {
      proofState @0 :IntP;
      contextDef @1 :Void;
      contextAssum @2 :Void;
      definition @3 :Definition;
      constEmpty @4 :Void;
      sortSProp @5 :Void;
      sortProp @6 :Void;
      sortSet @7 :Void;
      sortType @8 :Void;
      rel @9 :Void;
      evar @10 :Void;
      evarSubst @11 :Void;
      cast @12 :Void;
      prod @13 :Void;
      lambda @14 :Void;
      letIn @15 :Void;
      app @16 :Void;
      case @17 :Void;
      caseBranch @18 :Void;
      fix @19 :Void;
      fixFun @20 :Void;
      coFix @21 :Void;
      coFixFun @22 :Void;
      int @23 :IntP;
      float @24 :FloatP;
      primitive @25 :Text;
    }
    childrenIndex @26 :UInt32;
    childrenCount @27 :UInt16;
    identity @28 :Int64;
  }
}

struct Dataset {
  dependencies @0 :List(Text);
  graph @1 :Graph;
  representative @2 :UInt32;
  definitions @3 :List(UInt32);
  moduleName @4 :Text;
  dataVersion @5 :DataVersion;
}
