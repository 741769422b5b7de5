}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
}
const x;
